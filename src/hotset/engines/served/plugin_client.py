"""Asks the plugin inside an engine; see `plugin` for what it answers. Whoever asks bounds the time."""

import math
from collections.abc import Callable
from typing import TypeVar

import msgspec

from hotset.core.errors import EngineFailedError, EngineUnavailableError, LoadFailedError
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import StepFacts
from hotset.engines.served import plugin
from hotset.engines.served.dialects import words_of
from hotset.engines.served.http_client import Answer, HttpClient

_OK, _NOT_FOUND, _CONFLICT = 200, 404, 409
_STEP_LINE_BYTES_MAX = 1 << 20
_STEPS = msgspec.json.Decoder(list[StepFacts])
_Told = TypeVar("_Told", bound=msgspec.Struct)


class PluginClient:
    """One engine's plugin.

    Every call raises `EngineUnavailableError` where the engine is gone or makes no sense.
    """

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def state(self) -> plugin.PluginState:
        """Return what the engine is, holds and runs."""
        return _told(await self._client.ask("GET", plugin.STATE), plugin.PluginState)

    async def remove(self, name: EngineName) -> None:
        """Take an adapter away, in slot, host memory and by name; harmless for an unknown one.

        Raises:
            LoadFailedError: a request that has not ended uses it.
        """
        answer = await self._client.ask("POST", plugin.REMOVE, plugin.Named(name))
        if answer.status == _CONFLICT:
            raise LoadFailedError("a running request uses the version")
        _check_ok(answer)

    async def abort(self, request_id: RequestId) -> bool:
        """End a request; return whether the engine had it."""
        answer = await self._client.ask("POST", plugin.ABORT, plugin.Running(request_id))
        return _told(answer, plugin.Aborted).was_running

    async def score(self, name: EngineName | None, texts: tuple[str, ...]) -> list[list[float]]:
        """Return, for each text, the log-probability of each token after its first.

        Raises:
            LoadFailedError: the name is not loaded.
        """
        answer = await self._client.ask("POST", plugin.SCORE, plugin.Scored(name, texts))
        _check_loaded(answer)
        scores = _told(answer, plugin.Scores).scores
        return [[math.nan if score is None else score for score in each] for each in scores]

    async def checksum(self, name: EngineName) -> str:
        """Return what stands for the tensors in a version's slot.

        Raises:
            LoadFailedError: it is in no slot.
        """
        answer = await self._client.ask("POST", plugin.CHECKSUM, plugin.Named(name))
        _check_loaded(answer)
        return _told(answer, plugin.Checksum).checksum

    async def follow_steps(self, watcher: Callable[[StepFacts], None]) -> None:
        """Tell a watcher what each step computes, until cancelled or the engine is gone."""
        rest = bytearray()

        def receive(_: int, piece: bytes) -> None:
            rest.extend(piece)
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            if len(rest) > _STEP_LINE_BYTES_MAX:
                raise EngineFailedError("the engine told of steps without an end")
            for line in lines:
                for step in _STEPS.decode(line):
                    watcher(step)

        try:
            await self._client.exchange("GET", plugin.STEPS, None, receive)
        except EngineUnavailableError:
            return  # its end is told elsewhere


def _check_loaded(answer: Answer) -> None:
    if answer.status == _NOT_FOUND:
        raise LoadFailedError("the version is not loaded")


def _check_ok(answer: Answer) -> None:
    if answer.status != _OK:
        raise EngineUnavailableError(f"the engine's plugin fails: {answer.status} {words_of(answer.body)}")


def _told(answer: Answer, kind: type[_Told]) -> _Told:
    _check_ok(answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise EngineUnavailableError(f"the engine's plugin says what can't be read: {error}") from error
