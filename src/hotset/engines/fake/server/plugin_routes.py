"""Hotset's plugin in the fake engine; see `engines.served.plugin` for what it answers."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hotset.core.ids import RequestId
from hotset.core.messages import Failed, StepFacts
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.server.generating import ABORTED
from hotset.engines.fake.server.refusal import Refusal, json_answer, read_body
from hotset.engines.fake.server.serving import Serving
from hotset.engines.served import plugin

_NOT_HELD = Refusal(404, "NotFoundError", "There is no such adapter.")
_IN_USE = Refusal(409, "ConflictError", "Requests use the adapter.")


class PluginRoutes:
    """The routes of one engine."""

    def __init__(self, serving: Serving, purge: Callable[[str], None]) -> None:
        """Serve an engine.

        Args:
            serving: The engine.
            purge: Makes the engine forget a name for good.
        """
        self._serving = serving
        self._purge = purge

    def routes(self) -> list[Route]:
        """Return the routes."""
        acts = {
            plugin.REMOVE: self._remove,
            plugin.ABORT: self._abort,
            plugin.SCORE: self._score,
            plugin.CHECKSUM: self._checksum,
        }
        posts = [Route(path, act, methods=["POST"]) for path, act in acts.items()]
        return [Route(plugin.STATE, self._state), Route(plugin.STEPS, self._steps), *posts]

    async def _state(self, _: Request) -> Response:
        serving = self._serving
        options = serving.options
        return json_answer(
            plugin.PluginState(
                engine=f"{serving.profile.engine}, hotset {version('hotset')}",
                dtype="float32",
                hardware_class="none",
                base=options.base,
                num_slots=options.num_slots,
                num_host_extra=options.num_host - options.max_loras,
                rank_max=options.max_lora_rank,
                model_len_max=options.max_model_len,
                num_sequences_max=options.max_num_seqs,
                held=tuple(self._held()),
                running=serving.loop.requests(),
                kv_blocks_used=serving.loop.kv_blocks_used,
                kv_blocks_total=serving.loop.kv_blocks_total,
            )
        )

    def _held(self) -> list[plugin.Held]:
        serving = self._serving
        found: list[plugin.Held] = []
        for key, name in serving.names.items():
            weights = serving.tiers.weights(key)
            is_registered = serving.registered.get(name) == key
            if weights is None and not is_registered:
                continue
            found.append(
                plugin.Held(
                    name=name,
                    path=serving.tiers.folder(key),
                    tier=self._tier(key),
                    is_registered=is_registered,
                    num_bytes=weights.num_bytes if weights else 0,
                )
            )
        return found

    def _tier(self, key: AdapterKey) -> Literal["slot", "host", "nowhere"]:
        tiers = self._serving.tiers
        if key in tiers.in_slots():
            return "slot"
        return "host" if tiers.weights(key) else "nowhere"

    async def _remove(self, request: Request) -> Response:
        body = await read_body(request, plugin.Named)
        if isinstance(body, Refusal):
            return body.answer()
        async with self._serving.stepper.turn:
            keys = self._serving.keys_of(body.name)
            if any(self._serving.loop.is_asked_for(key) for key in keys):
                return _IN_USE.answer()
            for key in keys:
                self._serving.remove(key)
            self._purge(body.name)
        return json_answer({})

    async def _abort(self, request: Request) -> Response:
        body = await read_body(request, plugin.Running)
        if isinstance(body, Refusal):
            return body.answer()
        request_id = RequestId(body.request_id)
        was_running = self._serving.stepper.cut(request_id, Failed(request_id, ABORTED, "the request was aborted"))
        return json_answer(plugin.Aborted(was_running))

    async def _score(self, request: Request) -> Response:
        body = await read_body(request, plugin.Scored)
        if isinstance(body, Refusal):
            return body.answer()
        key = None if body.name is None else self._serving.registered.get(body.name)
        if body.name is not None and (key is None or self._serving.tiers.weights(key) is None):
            return _NOT_HELD.answer()
        loop, mark = self._serving.loop, self._serving.tiers.mark(key)
        loop.flaws.touch(key)
        scores = [loop.answerer.scores(mark, text) for text in body.texts]
        told = [[None if loop.flaws.is_poisoned else score for score in each] for each in scores]
        return json_answer(plugin.Scores(told))

    async def _checksum(self, request: Request) -> Response:
        body = await read_body(request, plugin.Named)
        if isinstance(body, Refusal):
            return body.answer()
        in_slots = set(self._serving.tiers.in_slots())
        key = next((key for key in self._serving.keys_of(body.name) if key in in_slots), None)
        if key is None:
            return _NOT_HELD.answer()
        mark = self._serving.tiers.mark(key)
        return json_answer(plugin.Checksum(hashlib.sha256(f"slot {mark}".encode()).hexdigest()))

    async def _steps(self, _: Request) -> Response:
        return StreamingResponse(self._step_lines(), media_type="application/x-ndjson")

    async def _step_lines(self) -> AsyncIterator[bytes]:
        watchers = self._serving.stepper.watchers
        told: asyncio.Queue[StepFacts] = asyncio.Queue(maxsize=1024)

        def keep(step: StepFacts) -> None:
            if not told.full():  # of a reader that does not read, the rest is not told
                told.put_nowait(step)

        watchers.append(keep)
        try:
            while True:
                steps = [await told.get()]
                while not told.empty():
                    steps.append(told.get_nowait())
                yield msgspec.json.encode(steps) + b"\n"
        finally:
            watchers.remove(keep)
