"""`hotset job` and `hotset tenant jobs` beside a running server."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.server import ALIAS, running_server

Hotset = Callable[..., Any]


def test_an_operator_sees_a_job_without_its_words_and_ends_it(tmp_path: Path, hotset: Callable[[Path], Hotset]) -> None:
    with (
        running_server(tmp_path, adapters=1, kind="instant", jobs={"poll_s": 0.05}) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.tenants["tenant-0"].token, max_retries=0) as client,
    ):
        command = hotset(server.home)
        created = client.responses.create(model=ALIAS, input="plutonium", background=True, max_output_tokens=3)
        while client.responses.retrieve(created.id).status in ("queued", "in_progress"):
            time.sleep(0.02)
        assert command("job", "list", "--state", "expired")[1] == "There is no job to list.\n"
        status, listed, _ = command("job", "list", "--tenant", "tenant-0", "--json")
        assert (status, [row["id"] for row in listed]) == (0, [created.id])
        assert listed[0]["state"] == "completed"
        for words in (("job", "list"), ("job", "show", created.id)):
            status, text, _ = command(*words)
            assert status == 0
            assert created.id in text
            assert "plutonium" not in text
        status, text, _ = command("job", "cancel", created.id, "--yes")
        assert (status, text) == (0, f"Job {created.id} of tenant-0 is completed.\n")
        status, text, _ = command("tenant", "jobs", "tenant-0", "--forbid")
        assert (status, text) == (0, "Requests of tenant-0 are not accepted as jobs.\n")
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.responses.create(model=ALIAS, input="hello", background=True)
        assert refused.value.code == "jobs_forbidden"
