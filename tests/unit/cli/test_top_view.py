"""What `hotset top` shows."""

import io
from typing import Any

from rich.console import Console

from hotset.cli.top_view import top_view

ANSWER: dict[str, Any] = {
    "at_s": 1.0,
    "in_flight": 3,
    "per_minute": {"requests": 120, "refusals": 4, "loads": 2, "evictions": 1},
    "batch_efficiency": 0.873,
    "worst_tenant": "globex",
    "gateways": [{"gateway": "g1", "in_flight": 2, "per_minute": {"requests": 100, "refusals": 4}}],
    "unreached": [{"role": "gateway", "name": "g2", "reason": "not linked to control"}],
    "workers": [
        {
            "worker": "w1",
            "base": "smol",
            "engine": "embedded 0.1",
            "num_running": 2,
            "num_waiting": 1,
            "num_places": 64,
            "slots": [
                {"state": "hot", "version": "acme/a@1", "account": "acme", "num_running": 2, "num_waiting": 0},
                {"state": "empty", "version": None, "account": None, "num_running": 0, "num_waiting": 0},
            ],
        },
        {
            "worker": None,
            "base": "tiny",
            "engine": None,
            "num_running": 0,
            "num_waiting": 0,
            "num_places": 0,
            "slots": [],
        },
    ],
    "queue": [{"lane": "loading", "num_waiting": 1, "oldest_s": 0.25}],
    "tenants": [
        {"tenant": "globex", "first_token_p50_s": 0.5, "first_token_p95_s": 2.0},
        {"tenant": "[acme]", "first_token_p50_s": 0.02, "first_token_p95_s": 0.04},
    ],
}


def test_a_frame_has_workers_slots_queue_tenants_and_the_worst() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(top_view(ANSWER))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "3 in flight; last minute: 120 requests, 4 refusals, 2 loads, 1 evictions" in lines
    assert "waiting: 1 loading (oldest 250 ms); batch efficiency: 0.87" in lines
    assert "by g1: 2 in flight; 100 requests, 4 refusals" in lines
    assert "not reached: gateway g2: not linked to control" in lines
    assert "w1 (smol) on embedded 0.1: 2 of 64 places taken, 1 waiting" in lines
    assert "0 hot acme/a@1 acme 2 0" in lines
    assert "1 empty - - 0 0" in lines
    assert "tiny: no engine serves it" in lines
    assert "globex 500 ms 2.0 s worst" in lines
    assert "[acme] 20 ms 40 ms" in lines


def test_a_frame_without_first_tokens_says_so() -> None:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(top_view({**ANSWER, "tenants": []}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "no first token in the last minute" in text
    assert "p95" not in text
