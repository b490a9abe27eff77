"""The clients of `fleet_truth`: each asks as planned, reads its answer to the end, and judges it."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.acceptance.greedy import compare, tokens_of
from tests.acceptance.truth_plan import Planned
from tests.acceptance.truth_solo import Asked, SoloAnswer
from tests.acceptance.truth_world import World

#: What a request may be refused with; a client comes back after the first of them.
_COMES_BACK, _GIVES_UP = "adapter_cold", ("first_token_budget_exceeded", "slots_full", "load_rate_exceeded")
_REFUSALS = (_COMES_BACK, *_GIVES_UP, "too_many_requests")
_TRIES_MAX, _PAUSE_MAX_S = 4, 20.0
_IN_FLIGHT_MAX = 64
_TIMEOUT_S = 180.0


@dataclass
class Told:
    """What came of all requests."""

    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    #: Answers by gateway, base, tenant, adapter, lane and way.
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Requests that were refused as cold and came back when told to: by what came of it.
    returned: Counter[str] = field(default_factory=Counter)
    first_token_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    #: By how much the latest request was later than planned, as this machine was busy.
    late_s: float = 0.0


@dataclass
class Heard:
    """One answer as it was heard."""

    status: int
    headers: httpx.Headers
    #: The whole body of what was not streamed, or of a refusal.
    body: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    contents: list[bytes] = field(default_factory=list)
    finish_reason: str | None = None
    model: str = ""
    #: The code of an error, before or after the first byte.
    code: str = ""
    is_complete: bool = True
    first_s: float | None = None


class Clients:
    """Asks and judges."""

    def __init__(
        self,
        world: World,
        prompts: Sequence[str],
        solo: Mapping[Asked, SoloAnswer],
        end_tokens: Mapping[str, bytes],
        num_tokens: int,
    ) -> None:
        self._world = world
        self._prompts = prompts
        self._solo = solo
        self._end_tokens = end_tokens
        self._num_tokens = num_tokens
        self.told = Told()

    async def run(self, requests: Sequence[Planned], urls: Mapping[str, str]) -> None:
        """Ask all of it, each at its time, and return once each was answered."""
        began_s, places = time.monotonic(), asyncio.Semaphore(_IN_FLIGHT_MAX)
        limits = httpx.Limits(max_connections=_IN_FLIGHT_MAX)
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, limits=limits) as http, asyncio.TaskGroup() as group:
            for request in requests:
                await asyncio.sleep(max(0.0, began_s + request.at_s - time.monotonic()))
                await places.acquire()
                self.told.late_s = max(self.told.late_s, time.monotonic() - began_s - request.at_s)
                task = group.create_task(self._answer(http, urls[request.gateway], request))
                task.add_done_callback(lambda _: places.release())

    async def _answer(self, http: httpx.AsyncClient, url: str, request: Planned) -> None:
        """Ask until answered, refused for good, or told to come back too often."""
        for number in range(_TRIES_MAX):
            try:
                heard = await self._ask(http, url, request)
            except httpx.HTTPError as error:
                self._wrong(request, f"no answer: {error!r}")
                return
            outcome = self._judge(request, heard)
            if number:
                self.told.returned[outcome] += 1
            if outcome != _COMES_BACK:
                self.told.outcomes[outcome] += 1
                return
            await asyncio.sleep(min(_PAUSE_MAX_S, heard.body["retry_after_ms"] / 1000))
        self.told.outcomes["refused each time"] += 1

    async def _ask(self, http: httpx.AsyncClient, url: str, request: Planned) -> Heard:
        body = {
            "model": request.model.alias,
            "messages": [{"role": "user", "content": self._prompts[request.prompt]}],
            "temperature": 0,
            "max_tokens": self._num_tokens,
            "stream": request.is_stream,
            "logprobs": True,
        }
        headers = {"authorization": f"Bearer {self._world.tokens[request.model.tenant]}"}
        if request.budget_ms is not None:
            headers["hotset-first-token-budget-ms"] = str(request.budget_ms)
        began_s = time.monotonic()
        async with http.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers) as response:
            heard = Heard(response.status_code, response.headers)
            if response.status_code == 200 and request.is_stream:
                await _read_stream(response, heard, began_s)
            else:
                heard.body = json.loads(await response.aread())
                _read_whole(heard)
        return heard

    def _judge(self, request: Planned, heard: Heard) -> str:
        """Return what came of a request; note what is wrong with it."""
        if heard.code:
            return self._judge_refusal(request, heard)
        if request.is_foreign:
            return self._wrong(request, "an answer to what it may not call")
        if heard.headers.get("hotset-route") != request.model.shown:
            return self._wrong(request, f"Hotset-Route is {heard.headers.get('hotset-route')}")
        if heard.model != request.model.alias:
            return self._wrong(request, f"the answer says that it is of {heard.model}")
        if not heard.is_complete:
            return self._wrong(request, "a stream that ends early")
        return self._judge_answer(request, heard)

    def _judge_answer(self, request: Planned, heard: Heard) -> str:
        model = request.model
        end_token = self._end_tokens[model.base]
        tokens = tokens_of(heard.contents, end_token, has_ended=heard.finish_reason == "stop")
        solo = self._solo[model.base, model.adapter, request.prompt]
        verdict = compare(solo.reference, tokens)
        if not verdict.is_equal or (not verdict.is_tie and heard.text != solo.text):
            return self._wrong(request, self._difference(request, tokens, heard.text, solo))
        for kind, value in (
            ("gateway", request.gateway),
            ("base", model.base),
            ("tenant", model.tenant),
            ("model", model.adapter or f"bare {model.base}"),
            ("lane", heard.headers.get("hotset-lane", "later")),
            ("way", "stream" if request.is_stream else "whole"),
        ):
            self.told.answers[kind, value] += 1
        if heard.first_s is not None:
            self.told.first_token_s.append(heard.first_s)
        return "tie" if verdict.is_tie else "equal"

    def _judge_refusal(self, request: Planned, heard: Heard) -> str:
        code = heard.code
        if request.is_foreign:
            is_right = (heard.status, code) == (404, "model_not_found")
            return "not found" if is_right else self._wrong(request, f"{heard.status} {code} in place of a 404")
        if code not in _REFUSALS or heard.status not in (200, 429):
            return self._wrong(request, f"{heard.status} {code}")
        if heard.status == 429 and ("retry-after" not in heard.headers or "retry_after_ms" not in heard.body):
            return self._wrong(request, f"{code} does not say when to come back")
        if code == _COMES_BACK and heard.headers.get("x-should-retry") != "false":
            return self._wrong(request, f"{code} lets stock clients wait")
        self.told.refusals[code] += 1
        return code

    def _difference(self, request: Planned, tokens: tuple[bytes, ...], text: str, solo: SoloAnswer) -> str:
        """Return what is wrong with an answer, and whose it is if it is another model's."""
        verdict = compare(solo.reference, tokens)
        whose = [
            f"{base}/{adapter}"
            for (base, adapter, prompt), other in self._solo.items()
            if prompt == request.prompt and other.reference.tokens == tokens
        ]
        return (
            f"another answer from token {verdict.position} (lead {verdict.lead:.2e}); it is that of {whose or 'nobody'}"
            f": {text!r} in place of {solo.text!r}"
        )

    def _wrong(self, request: Planned, what: str) -> str:
        model = request.model
        self.told.wrong.append(f"{model.tenant} asked {request.gateway} for {model.alias}: {what}")
        return "wrong"


def _read_whole(heard: Heard) -> None:
    if "error" in heard.body:
        heard.code = heard.body["error"]["code"]
        return
    (choice,) = heard.body["choices"]
    heard.model, heard.text, heard.finish_reason = (
        heard.body["model"],
        choice["message"]["content"],
        choice["finish_reason"],
    )
    heard.contents = _contents(choice)


async def _read_stream(response: httpx.Response, heard: Heard, began_s: float) -> None:
    heard.is_complete = False
    async for line in response.aiter_lines():
        if line == "data: [DONE]":
            heard.is_complete = True
        elif line.startswith("data: "):
            event = json.loads(line[6:])
            if "error" in event:
                heard.body, heard.code = event, event["error"]["code"]
                return
            heard.model = event["model"]
            for choice in event["choices"]:
                if choice["delta"].get("content") and heard.first_s is None:
                    heard.first_s = time.monotonic() - began_s
                heard.text += choice["delta"].get("content") or ""
                heard.contents += _contents(choice)
                heard.finish_reason = choice["finish_reason"] or heard.finish_reason


def _contents(choice: dict[str, Any]) -> list[bytes]:
    entries = (choice.get("logprobs") or {}).get("content") or []
    return [bytes(entry["bytes"]) for entry in entries if entry["bytes"]]
