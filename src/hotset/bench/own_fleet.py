"""A fleet that runs already, asked with keys from files: what a scenario needs of it, and the bound on the whole."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hotset.bench.asking import Asker
from hotset.bench.gateway_asker import gateway_asker
from hotset.core.clock import Clock, SystemClock
from hotset.core.errors import EngineTimeoutError, HotsetError, InvalidRequestError
from hotset.core.ids import TenantId

_Result = TypeVar("_Result")
_KEY_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFleet:
    """Where the fleet is, and for how long it may be asked."""

    #: Addresses of tenant planes.
    gateways: tuple[str, ...]
    #: Of the whole run.
    minutes_max: float


@dataclass(frozen=True, slots=True)
class Reached:
    """A fleet whose gateways answer and take the keys."""

    asker: Asker[str]
    #: Of each client, by its key's file.
    models: Mapping[TenantId, tuple[str, ...]]
    clock: Clock

    def models_of(self, files: Sequence[Path]) -> dict[TenantId, tuple[str, ...]]:
        """Return the models of some keys.

        Raises:
            InvalidRequestError: a key has none.
        """
        chosen = {client_of(file): self.models[client_of(file)] for file in files}
        for client, models in chosen.items():
            if not models:
                raise InvalidRequestError(f"The key in {client} may call no adapter.")
        return chosen


def client_of(file: Path) -> TenantId:
    """Return what a report and an error call the client of a key."""
    return TenantId(str(file))


def run_on_fleet(
    fleet: OwnFleet,
    key_files: Sequence[Path],
    planned_s: float,
    measure: Callable[[Reached], Coroutine[Any, Any, _Result]],
) -> _Result:
    """Ask a fleet within its bound; an error of any client ends it.

    Args:
        fleet: Who is asked.
        key_files: One for each client.
        planned_s: What the blocks alone take.
        measure: Asks.

    Raises:
        InvalidRequestError: it can't be done in time, a key can't be read or comes twice, an address is none, or a
            client's requests will never be served.
        UnauthenticatedError: a gateway does not take a key.
        ServerUnreachableError: a gateway is away.
        EngineTimeoutError: it did not end in time.
    """
    if planned_s > fleet.minutes_max * 60:
        raise InvalidRequestError(
            f"The blocks alone take {planned_s / 60:.1f} minutes, and {fleet.minutes_max:g} are allowed.",
            param="minutes_max",
        )
    tokens = {client_of(file): read_key(file) for file in key_files}
    if len(set(tokens.values())) < len(key_files):
        raise InvalidRequestError("Each client needs a key of its own.")
    return asyncio.run(_alone(_within(fleet, tokens, measure)))


def read_key(file: Path) -> str:
    """Return the key that a file holds, and nothing else.

    Raises:
        InvalidRequestError: the file can't be read, or holds something else.
    """
    try:
        with file.open("rb") as opened:
            words = opened.read(_KEY_BYTES_MAX).split()
    except OSError as error:
        raise InvalidRequestError(f"The key in {file} can't be read: {error.strerror}.") from error
    if len(words) != 1 or not words[0].isascii():
        raise InvalidRequestError(f"{file} does not hold one key and nothing else.")
    return words[0].decode()


async def _within(
    fleet: OwnFleet, tokens: Mapping[TenantId, str], measure: Callable[[Reached], Coroutine[Any, Any, _Result]]
) -> _Result:
    clock = SystemClock()
    try:
        async with asyncio.timeout(fleet.minutes_max * 60), gateway_asker(fleet.gateways, tokens, clock) as asker:
            models = {client: await asker.models(client) for client in tokens}
            return await measure(Reached(asker, models, clock))
    except TimeoutError as error:
        raise EngineTimeoutError(f"The fleet did not finish within {fleet.minutes_max:g} minutes.") from error


async def _alone(running: Coroutine[Any, Any, _Result]) -> _Result:
    """Raise the first of several clients' errors by itself, as they mostly meet the same."""
    met: list[BaseException] = []
    try:
        return await running
    except* HotsetError as group:
        met.append(group)
    first = met[0]
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    raise first
