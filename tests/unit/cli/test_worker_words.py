"""What is told of workers: which base one lacks, and what helps; how much one that is drained has left."""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hotset.cli.commands.fleet import _WORKER_COLUMNS, _left_words, _num_left, _worker_row
from hotset.cli.fleet.worker import _lacking


@pytest.mark.parametrize(
    ("wanted", "known", "told"),
    [
        ("llama", [], "control has no base llama yet (hotset base add); waiting for it"),
        ("llama", ["qwen"], "control has no base llama yet (hotset base add); waiting for it"),
        (None, [], "control has no base yet (hotset base add); waiting for it"),
        (None, ["qwen", "llama"], "control has several bases (llama, qwen): end this worker and name one with --base"),
    ],
)
def test_what_a_worker_lacks(wanted: str | None, known: list[str], told: str) -> None:
    snapshot = cast("Any", SimpleNamespace(bases={name: SimpleNamespace(name=name) for name in known}))
    assert _lacking(wanted, snapshot) == told


@pytest.mark.parametrize(
    ("running", "waiting", "told"),
    [
        (0, 0, "it is idle"),
        (2, 1, "3 requests left"),
        (None, None, "how many requests it has left is not known, as it is not heard"),
    ],
)
def test_what_a_drained_worker_has_left(running: int | None, waiting: int | None, told: str) -> None:
    assert _left_words(_num_left({"num_running": running, "num_waiting": waiting})) == told


@pytest.mark.parametrize(("waiting", "told"), [(0, None), (1, "0.0 s"), (None, None)])
def test_how_long_the_oldest_has_waited_is_told_where_one_waits(waiting: int | None, told: str | None) -> None:
    oldest_s = None if waiting is None else 0.0
    row = defaultdict[str, Any](lambda: None, num_waiting=waiting, oldest_wait_s=oldest_s)
    assert dict(zip(_WORKER_COLUMNS, _worker_row(row), strict=True))["oldest wait"] == told
