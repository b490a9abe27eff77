"""What became of one request, from its line in the request log and what workers still know of its version. Pure.

Workers keep their newest loads and evictions only, and forget them with their engine: where an eviction is not named
it may be too long ago.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotset.control.on_call_answers import EvictionAnswer, LoadAnswer, RequestAnswer, WaitsAnswer
from hotset.core.ids import BaseName, Digest, EngineName
from hotset.core.residency_report import SlotEvent, WorkerReport


def explained(
    entry: Mapping[str, Any],
    bases: Mapping[Digest, BaseName],
    workers: Sequence[WorkerReport],
    names: Mapping[EngineName, str],
    now_s: float,
) -> RequestAnswer:
    """Return what an operator is told.

    Args:
        entry: The request's line.
        bases: Names of base versions.
        workers: Every worker as it is now.
        names: ``owner/name@N`` of the versions that they mention.
        now_s: Wall-clock seconds, now.
    """
    base = bases.get(entry.get("base", ""), "")
    version = f"{entry['adapter']}@{entry['version']}" if entry.get("version") else ""
    own = [worker for worker in workers if worker.base == base]
    evicted, loaded = None, None
    if version and entry.get("lane") != "hot":
        for at_s, event in _events(own, version, names, now_s):
            if event.kind == "evicted" and at_s <= entry["at"]:
                evicted = _eviction(at_s, event, names)
            elif event.kind == "loaded" and at_s >= entry["at"] and loaded is None:
                loaded = LoadAnswer(at_s=at_s, tier=event.tier, seconds=event.seconds)
    told = {
        "route": f"{entry.get('alias', '')} -> {version or base or 'nothing'}" + (f" on {base}" if version else ""),
        "waits": _waits(entry),
        "engine": next((worker.engine for worker in own if worker.engine is not None), None),
        "evicted": evicted,
        "loaded": loaded,
    }
    return RequestAnswer.model_validate({**entry, **told})


def _events(
    workers: Sequence[WorkerReport], version: str, names: Mapping[EngineName, str], now_s: float
) -> Iterator[tuple[float, SlotEvent]]:
    """Yield what befell a version, oldest first, each with its wall-clock moment."""
    found = [
        (now_s - event.age_s, event)
        for worker in workers
        for event in worker.events
        if names.get(event.version, event.version) == version
    ]
    yield from sorted(found, key=lambda each: each[0])


def _eviction(at_s: float, event: SlotEvent, names: Mapping[EngineName, str]) -> EvictionAnswer:
    successor = event.successor
    return EvictionAnswer(
        at_s=at_s,
        cause=event.cause,
        by=event.by,
        made_room_for=None if successor is None else names.get(successor, successor),
    )


def _waits(entry: Mapping[str, Any]) -> WaitsAnswer:
    """Return the stages one after another; what came before the body was whole is in the total alone."""
    queue_s, load_s, first_s = entry.get("queue_s"), entry.get("load_s"), entry.get("first_token_s")
    total_s = entry.get("total_s")
    prompt_s = answer_s = None
    if first_s is not None:
        prompt_s = max(0.0, first_s - (queue_s or 0.0) - (load_s or 0.0))
        answer_s = None if total_s is None else max(0.0, total_s - first_s)
    return WaitsAnswer(queue_s=queue_s, load_s=load_s, prompt_s=prompt_s, answer_s=answer_s, total_s=total_s)
