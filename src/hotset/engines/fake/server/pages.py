"""What an engine tells of itself: health, models, metrics.

Source: vLLM 0.33.0 and SGLang 0.5.23. `/v1/models` lists what is registered, which is not what is loaded. The only LoRA
metric of vLLM has its adapters as labels: a new series for each set of them, never taken away, the waiting ones always
those that run.
"""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hotset.engines.fake.adapter_tiers import BASE
from hotset.engines.fake.server.refusal import json_answer
from hotset.engines.fake.server.serving import Serving


class Pages:
    """The routes of one engine."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._began_s = int(serving.clock.wall_s())
        #: Sets of adapters that ever had requests → when they last had.
        self._seen: dict[str, float] = {}

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/health", self._health),
            Route("/v1/models", self._models),
            Route("/metrics", self._metrics),
        ]

    async def _health(self, _: Request) -> Response:
        return Response(status_code=503 if self._serving.stepper.died.is_set() else 200)

    async def _models(self, _: Request) -> Response:
        serving = self._serving
        options = serving.options
        base = {"id": options.served_model_name, "root": options.base, "parent": None}
        cards: list[dict[str, object]] = [{**base, "max_model_len": options.max_model_len}]
        for name, key in serving.registered.items():
            card = {"id": name, "root": serving.tiers.folder(key), "parent": options.served_model_name}
            cards.append({**card, "max_model_len": None})
        head = {"object": "model", "created": self._began_s, "owned_by": options.habits}
        return json_answer({"object": "list", "data": [{**head, **card} for card in cards]})

    async def _metrics(self, _: Request) -> Response:
        lines = self._vllm_lines() if self._serving.options.habits == "vllm" else self._sglang_lines()
        return PlainTextResponse("\n".join(lines) + "\n")

    def note_request(self) -> None:
        """Keep the set of adapters that have requests now."""
        serving = self._serving
        names = {serving.names.get(key, "") for key in serving.names if serving.loop.is_asked_for(key)}
        self._seen[",".join(sorted(names))] = serving.clock.wall_s()

    def _vllm_lines(self) -> list[str]:
        max_lora = self._serving.options.max_loras
        lines = ["# TYPE vllm:lora_requests_info gauge"]
        for names, seen_s in self._seen.items():
            labels = f'max_lora="{max_lora}",running_lora_adapters="{names}",waiting_lora_adapters="{names}"'
            lines.append(f"vllm:lora_requests_info{{{labels}}} {seen_s}")
        return lines

    def _sglang_lines(self) -> list[str]:
        used = len([key for key in self._serving.tiers.in_slots() if key != BASE])
        total = self._serving.options.max_loras
        return [
            f"sglang:lora_pool_slots_used {used}",
            f"sglang:lora_pool_slots_total {total}",
            f"sglang:lora_pool_utilization {used / total}",
        ]
