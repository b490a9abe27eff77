"""vLLM's way with adapters over HTTP. Source: vLLM 0.33.0, `entrypoints/serve/lora`; the answers seen on vLLM 0.32.0.

* A name that is loaded can't be loaded again, from the same path either: 400, also for a retry after a lost answer.
* Whatever is wrong with the weights is a 500; that there are none at the path is a 404.
* Unload forgets the name alone; slot and host copy stay until others take their place.
* `load_inplace` swaps weights under requests that run.
* `POST /adapters`, `DELETE /adapters/{name}` do the same, outside what an API key guards.
"""

import asyncio
from collections import defaultdict

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hotset.core.errors import LoadFailedError
from hotset.engines.fake.adapter_tiers import AdapterKey
from hotset.engines.fake.server.refusal import Refusal, read_body
from hotset.engines.fake.server.serving import Serving


class _Load(msgspec.Struct):
    lora_name: str
    lora_path: str
    load_inplace: bool = False


class _Unload(msgspec.Struct):
    lora_name: str


class _Register(msgspec.Struct):
    name: str
    src: str
    load_inplace: bool = False


class VllmHabits:
    """Adapters by name."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        #: Of a name; loads of different names are not held up by each other, but by the engine's loop.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def routes(self) -> list[Route]:
        """Return the routes that come and go with `VLLM_ALLOW_RUNTIME_LORA_UPDATING`."""
        if not self._serving.options.runtime_lora_updating:
            return []
        return [
            Route("/v1/load_lora_adapter", self._load, methods=["POST"]),
            Route("/v1/unload_lora_adapter", self._unload, methods=["POST"]),
            Route("/adapters", self._register, methods=["POST"]),
            Route("/adapters/{name:path}", self._unregister, methods=["DELETE"]),
        ]

    async def resolve(self, model: str, _: str | None) -> AdapterKey | Refusal | None:
        """Return which adapter a request's model is."""
        serving = self._serving
        base = serving.options.served_model_name
        if model == base:
            return None
        if model in serving.registered:
            return serving.registered[model]
        message = f"The model `{model}` does not exist. Valid aliases: {base}."
        return Refusal(404, "NotFoundError", message, "model")

    def purge(self, name: str) -> None:
        """Forget what is kept of a name beside its registration."""
        self._turns.pop(name, None)

    async def _load(self, request: Request) -> Response:
        body = await read_body(request, _Load)
        if isinstance(body, Refusal):
            return body.answer()
        refusal = await self._register_name(body.lora_name, body.lora_path, is_in_place=body.load_inplace)
        if refusal is not None:
            return refusal.answer()
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' added successfully.")

    async def _unload(self, request: Request) -> Response:
        body = await read_body(request, _Unload)
        if isinstance(body, Refusal):
            return body.answer()
        refusal = await self._forget_name(body.lora_name)
        if refusal is not None:
            return refusal.answer()
        return PlainTextResponse(f"Success: LoRA adapter '{body.lora_name}' removed successfully.")

    async def _register(self, request: Request) -> Response:
        body = await read_body(request, _Register)
        if isinstance(body, Refusal):
            return body.answer()
        refusal = await self._register_name(body.name, body.src, is_in_place=body.load_inplace)
        return PlainTextResponse(f"Adapter {body.name} registered") if refusal is None else refusal.answer()

    async def _unregister(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        refusal = await self._forget_name(name)
        return PlainTextResponse(f"Adapter {name} unregistered") if refusal is None else refusal.answer()

    async def _register_name(self, name: str, path: str, *, is_in_place: bool) -> Refusal | None:
        if not name or not path:
            return _wrong("Both 'lora_name' and 'lora_path' must be provided.")
        if name == self._serving.options.served_model_name:
            return _wrong(f"The lora adapter '{name}' conflicts with a served base model.")
        async with self._turns[name]:
            known = self._serving.registered.get(name)
            if known is not None and not is_in_place:
                hint = "If you want to load the adapter in place, set 'load_inplace' to True."
                return _wrong(f"The lora adapter '{name}' has already been loaded. {hint}")
            try:
                key = await self._serving.load(name, path, in_place=known)
            except FileNotFoundError:
                return Refusal(404, "NotFoundError", f"Loading lora {name} failed: No adapter found for <path>")
            except LoadFailedError as error:
                return _worker_failed(error.message)
        if is_in_place:
            self._serving.loop.flaws.loaded_in_place.add(key)
        return None

    async def _forget_name(self, name: str) -> Refusal | None:
        if not name:
            return _wrong("'lora_name' needs to be provided to unload a LoRA adapter.")
        async with self._turns[name]:
            if self._serving.registered.pop(name, None) is None:
                return Refusal(404, "NotFoundError", f"The lora adapter '{name}' cannot be found.")
        return None


def _wrong(message: str) -> Refusal:
    return Refusal(400, "InvalidUserInput", message)


def _worker_failed(why: str) -> Refusal:
    hint = "please check the stack trace above for the root cause"
    return Refusal(
        500, "InternalServerError", f"Call to add_lora method failed: Worker failed with error '{why}', {hint}"
    )
