"""A worker that can't tell its base from what control says tells which one it wants, and what helps."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

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
