"""What became of one request, from its gateway's line and what workers remember of it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hotset.control.on_call_answers import (
    AtWorkerAnswer,
    EvictionAnswer,
    LoadAnswer,
    RequestAnswer,
    UnreachedAnswer,
    WaitsAnswer,
)
from hotset.control.witnesses import RequestSeen
from hotset.core.ids import BaseName, Digest, EngineName, RequestId
from hotset.core.on_call import RequestAtWorker, RequestEntry, Unreached
from hotset.core.residency_report import SlotEvent, WorkerReport


def explained(
    request: RequestId,
    seen: RequestSeen,
    bases: Mapping[Digest, BaseName],
    workers: Sequence[WorkerReport],
    names: Mapping[EngineName, str],
    now_s: float,
) -> RequestAnswer | None:
    """Return what an operator is told; None where nobody knows the request.

    Args:
        request: Its id.
        seen: What gateways and workers say.
        bases: Names of base versions.
        workers: Every worker as it is now.
        names: ``owner/name@N`` of the versions that they mention.
        now_s: Wall-clock seconds, now.
    """
    entry, at_workers = seen.entry, sorted(seen.at_workers, key=lambda each: -each.age_s)
    if entry is None and not at_workers:
        return None
    told: dict[str, Any] = {} if entry is None else msgspec.structs.asdict(entry)
    worker = entry.worker if entry is not None else ""
    last = next((each for each in reversed(at_workers) if worker in ("", each.worker)), None)
    worker = worker or (last.worker if last is not None else None) or None
    base = BaseName("") if entry is None else bases.get(Digest(entry.base), BaseName(""))
    if entry is None and last is not None:
        told = {"request_id": request, "at": now_s - last.age_s, "lane": last.lane, "code": last.code}
    answer = {
        "route": _route(entry, last, base, names),
        "gateway": seen.gateway,
        "worker": worker,
        "waits": _waits(entry),
        "engine": _engine(worker, base, workers),
        "at_workers": [
            AtWorkerAnswer(worker=each.worker, lane=each.lane, waited_s=each.waited_s, code=each.code)
            for each in at_workers
        ],
        "evicted": None if last is None else _eviction(last.evicted, names, now_s),
        "loaded": None if last is None else _load(last.loaded, now_s),
        "unreached": unreached_answers(_who_might_know(seen, worker)),
    }
    return RequestAnswer.model_validate({**told, **answer})


def unreached_answers(unreached: Sequence[Unreached]) -> list[UnreachedAnswer]:
    """Return who could not be asked, as it is shown."""
    return [UnreachedAnswer(role=each.role, name=each.name, reason=each.reason) for each in unreached]


def _who_might_know(seen: RequestSeen, worker: str | None) -> list[Unreached]:
    """Return who of those that could not be asked might say more: no other gateway does, nor, once known, worker."""
    if seen.entry is None:
        return seen.unreached
    return [each for each in seen.unreached if each.role == "worker" and worker in (None, each.name)]


def _route(
    entry: RequestEntry | None, last: RequestAtWorker | None, base: BaseName, names: Mapping[EngineName, str]
) -> str:
    if entry is not None:
        version = f"{entry.adapter}@{entry.version}" if entry.version else ""
        return f"{entry.alias} -> {version or base or 'nothing'}" + (f" on {base}" if version else "")
    version = None if last is None or last.version is None else names.get(last.version, last.version)
    return f" -> {version or 'a base'}"


def _engine(worker: str | None, base: BaseName, workers: Sequence[WorkerReport]) -> str | None:
    own = (each for each in workers if (each.worker == worker if worker else each.base == base))
    return next((each.engine for each in own if each.engine is not None), None)


def _eviction(event: SlotEvent | None, names: Mapping[EngineName, str], now_s: float) -> EvictionAnswer | None:
    if event is None:
        return None
    successor = event.successor
    return EvictionAnswer(
        at_s=now_s - event.age_s,
        cause=event.cause,
        by=event.by,
        made_room_for=None if successor is None else names.get(successor, successor),
    )


def _load(event: SlotEvent | None, now_s: float) -> LoadAnswer | None:
    return None if event is None else LoadAnswer(at_s=now_s - event.age_s, tier=event.tier, seconds=event.seconds)


def _waits(entry: RequestEntry | None) -> WaitsAnswer:
    """Return the stages one after another; what came before the body was whole is in the total alone."""
    if entry is None:
        return WaitsAnswer(queue_s=None, load_s=None, prompt_s=None, answer_s=None, total_s=None)
    prompt_s = answer_s = None
    if entry.first_token_s is not None:
        prompt_s = max(0.0, entry.first_token_s - (entry.queue_s or 0.0) - (entry.load_s or 0.0))
        answer_s = max(0.0, entry.total_s - entry.first_token_s)
    return WaitsAnswer(
        expected_s=entry.expected_s,
        queue_s=entry.queue_s,
        load_s=entry.load_s,
        prompt_s=prompt_s,
        answer_s=answer_s,
        total_s=entry.total_s,
    )
