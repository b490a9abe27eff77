"""Tells the demo's story with the real openai client against a small server that answers as the tenant plane does."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from rich.console import Console

from hotset.cli.demo.cast import BASE_NAME, BASE_TENANT, CAST, TENANTS
from hotset.cli.demo.story import curl_line, python_lines, tell
from hotset.core.clock import SystemClock
from hotset.core.errors import EngineFailedError

TOKENS = {tenant: f"hs_{tenant}" for tenant in TENANTS}
NOT_FOUND = "The model does not exist or you do not have access to it."


class TenantPlane(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = {(f"hs_{role.owner}", role.name) for role in CAST} | {(f"hs_{BASE_TENANT}", BASE_NAME)}
        self.unknown_text = NOT_FOUND
        self.asked: list[tuple[str, str]] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: TenantPlane

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        caller = (self.headers["authorization"].removeprefix("Bearer "), body["model"])
        self.server.asked.append(caller)
        if caller not in self.server.models:
            text = self.server.unknown_text if body["model"] == "no-such-model" else NOT_FOUND
            self._answer(404, "application/json", {"error": {"message": text, "code": "model_not_found"}})
        elif body.get("stream"):
            self._stream(body["model"])
        else:
            self._answer(200, "application/json", {"id": "x", "object": "chat.completion", "choices": []})

    def _answer(self, status: int, kind: str, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("hotset-route", f"{model}@1")
        self.send_header("hotset-lane", "hot")
        self.end_headers()
        base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": model}
        for piece in ("says ", model.upper()):
            self._event({**base, "choices": [{"index": 0, "delta": {"content": piece}}]})
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        self._event({**base, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())


@pytest.fixture
def plane() -> Iterator[TenantPlane]:
    with TenantPlane() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def tell_it(plane: TenantPlane) -> str:
    output = io.StringIO()
    tell(plane.base_url, TOKENS, Console(file=output, width=150), SystemClock())
    return output.getvalue()


def test_the_story_shows_every_answer_the_refusal_and_the_keys(plane: TenantPlane) -> None:
    told = tell_it(plane)

    for role in CAST:
        assert f"says {role.name.upper()}" in told
        assert f"{role.name}@1" in told
        assert TOKENS[role.owner] in told
    assert f"says {BASE_NAME.upper()}" in told
    assert told.count(f"404 {NOT_FOUND}") == 3
    assert curl_line(plane.base_url, TOKENS["acme"], "support") in told
    assert python_lines(plane.base_url, TOKENS["acme"], "support") in told


def test_a_model_that_does_not_answer_ends_the_story_with_its_name(plane: TenantPlane) -> None:
    plane.models.remove(("hs_globex", "json"))

    with pytest.raises(EngineFailedError, match="globex's model 'json' did not answer"):
        tell_it(plane)


def test_a_foreign_model_that_answers_ends_the_story(plane: TenantPlane) -> None:
    plane.models.add(("hs_globex", CAST[0].name))

    with pytest.raises(EngineFailedError, match="same 404"):
        tell_it(plane)


def test_refusals_that_can_be_told_apart_end_the_story(plane: TenantPlane) -> None:
    plane.unknown_text = "There is no such model."

    with pytest.raises(EngineFailedError, match="same 404"):
        tell_it(plane)


def test_the_python_to_paste_is_a_program(plane: TenantPlane) -> None:
    assert compile(python_lines(plane.base_url, "hs_x", "support"), "pasted", "exec")
