"""The stock client's background responses through a server that is killed: created before, read after."""

import contextlib
import json
import time
from pathlib import Path

import httpx
import openai
import pytest

from tests.support.server import ALIAS, bare_server, running_server, write_config

_TENANT = "tenant-0"
_LONG = 60
SOON = {"poll_s": 0.1, "lease_s": 1.0, "pause_min_s": 0.1}


def client_of(url: str, token: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)


@pytest.mark.slow
def test_a_background_response_outlives_a_killed_server(tmp_path: Path) -> None:
    with running_server(tmp_path, adapters=2, jobs=SOON) as server:
        token, other = server.tenants[_TENANT].token, server.tenants["tenant-1"].token
        with client_of(server.url, token) as client:
            created = client.responses.create(
                model=ALIAS,
                input=[{"role": "user", "content": "a b c"}],
                instructions="d",
                background=True,
                temperature=0,
                max_output_tokens=40,
                metadata={"order": "7"},
            )
        assert (created.status, created.background, created.metadata) == ("queued", True, {"order": "7"})
        server.kill()
    config = write_config(tmp_path, engine={"kind": "embedded"}, jobs=SOON)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(bare_server(tmp_path / "home", config))
        server.process.wait_ready()
        client, stranger = (stack.enter_context(client_of(server.url, each)) for each in (token, other))
        done = read_to_end(client, created.id)
        assert done.status in ("completed", "incomplete"), done
        assert done.output_text
        assert done.usage is not None
        assert done.usage.output_tokens == 40
        same = client.chat.completions.create(
            model=ALIAS,
            messages=[{"role": "system", "content": "d"}, {"role": "user", "content": "a b c"}],
            temperature=0,
            max_tokens=40,
        )
        assert done.output_text == same.choices[0].message.content, "the job's answer is the model's own"
        assert refusal(stranger, created.id) == refusal(stranger, "resp_none")
        client.responses.delete(created.id)
        assert refusal(client, created.id)[0] == 404


def read_to_end(client: openai.OpenAI, response_id: str) -> openai.types.responses.Response:
    deadline_s = time.monotonic() + _LONG
    while (response := client.responses.retrieve(response_id)).status in ("queued", "in_progress"):
        assert time.monotonic() < deadline_s, response
        time.sleep(0.05)
    return response


def refusal(client: openai.OpenAI, response_id: str) -> tuple[int, dict[str, object]]:
    """The status and the body but for the request's own id."""
    url, headers = f"{client.base_url}responses/{response_id}", {"authorization": f"Bearer {client.api_key}"}
    response = httpx.get(url, headers=headers, timeout=60)
    body = json.loads(response.content)
    body.pop("instance")
    return response.status_code, body
