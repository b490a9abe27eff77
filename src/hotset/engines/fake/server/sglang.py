"""SGLang's way with adapters over HTTP. Source: SGLang 0.5.23, `srt/managers/tokenizer_control_mixin.py`; not run.

* Everything that goes wrong is a 400 with ``success`` false.
* Unload takes the name, then waits without a bound until no request uses it, then frees slot and host copy.
* A name that was loaded once is loaded again by the next request for it, after an unload too.
* Beyond the host copies, a load unloads the adapter used least lately that is not pinned, and waits for its requests
  with the lock held that every load and unload needs: one long request holds up all of them.
"""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hotset.core.errors import LoadFailedError
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.server.refusal import Refusal, json_answer, read_body
from hotset.engines.fake.server.serving import Serving

_ASK_AGAIN_S = 0.002


class _Load(msgspec.Struct):
    lora_name: str
    lora_path: str
    pinned: bool = False


class _Unload(msgspec.Struct):
    lora_name: str


class SglangHabits:
    """Adapters by name."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        #: All loads and unloads need it.
        self._turn = asyncio.Lock()
        #: Name → path of everything that was ever loaded; nothing is taken out.
        self._once_loaded: dict[str, str] = {}
        self._pinned: set[str] = set()

    def routes(self) -> list[Route]:
        """Return the routes, which have no prefix."""
        return [
            Route("/load_lora_adapter", self._load, methods=["POST"]),
            Route("/unload_lora_adapter", self._unload, methods=["POST"]),
        ]

    async def resolve(self, model: str, lora_path: str | None) -> AdapterKey | Refusal | None:
        """Return which adapter a request names: behind the colon of its model, else by ``lora_path``."""
        name = model.partition(":")[2] or lora_path
        if not name:
            return None
        serving = self._serving
        if name not in serving.registered:
            path = self._once_loaded.get(name)
            if path is None:
                return Refusal(400, "BadRequestError", f"Got LoRA adapter that has never been loaded: {name}.")
            async with self._turn:
                refusal = await self._bring(name, path)
            if refusal:
                return Refusal(400, "BadRequestError", refusal)
        return serving.registered[name]

    def purge(self, name: str) -> None:
        """Forget that an adapter was ever loaded, which the engine itself never does."""
        self._once_loaded.pop(name, None)
        self._pinned.discard(name)

    async def _load(self, request: Request) -> Response:
        body = await read_body(request, _Load)
        if isinstance(body, Refusal):
            return body.answer()
        name = body.lora_name
        async with self._turn:
            if name in self._serving.registered:
                return self._answer(f"LoRA adapter {name} is already loaded.")
            if body.pinned and len(self._pinned) >= self._serving.options.max_loras - 1:
                return self._answer("Too many pinned LoRA adapters: one slot must stay free of pins.")
            refusal = await self._bring(name, body.lora_path)
            if not refusal:
                self._once_loaded[name] = body.lora_path
                if body.pinned:
                    self._pinned.add(name)
                    self._serving.tiers.pin(self._serving.registered[name])
        return self._answer(refusal)

    async def _unload(self, request: Request) -> Response:
        body = await read_body(request, _Unload)
        if isinstance(body, Refusal):
            return body.answer()
        async with self._turn:
            if body.lora_name not in self._serving.registered:
                return self._answer(f"LoRA adapter {body.lora_name} is not loaded.")
            await self._let_go(body.lora_name)
        return self._answer("")

    async def _bring(self, name: str, path: str) -> str:
        """Load an adapter, after others were unloaded for it; return why not, empty where it went well."""
        serving = self._serving
        while len(serving.registered) >= serving.options.num_host:
            in_host = (serving.names.get(key) for key in serving.tiers.in_host())
            victims = (each for each in in_host if each in serving.registered and each not in self._pinned)
            victim = next(victims, None)
            if victim is None:
                return "Every loaded LoRA adapter is pinned."
            await self._let_go(victim)
        try:
            await serving.load(name, path)
        except FileNotFoundError:
            return f"Can't find 'adapter_config.json' at '{path}'"
        except LoadFailedError as error:
            return error.message
        return ""

    async def _let_go(self, name: str) -> None:
        serving = self._serving
        key = serving.registered.pop(name)
        while serving.loop.is_asked_for(key):  # noqa: ASYNC110 - the loop tells nobody of a request's end
            await asyncio.sleep(_ASK_AGAIN_S)
        serving.remove(key)
        self._pinned.discard(name)

    def _answer(self, fault: str) -> Response:
        serving = self._serving
        loaded = {name: serving.tiers.folder(key) for name, key in serving.registered.items()}
        content = {"success": not fault, "error_message": fault or None, "loaded_adapters": loaded}
        return json_answer(content, 400 if fault else 200)
