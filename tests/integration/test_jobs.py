"""Jobs over real sockets and a real database: what becomes one, how it runs, and what its tenant is told."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
import uvloop

from hotset.core.ids import KeyId
from hotset.core.ports import Withdrawal
from hotset.gateway.jobs.settings import JobSettings
from hotset.storage.database import Database
from tests.support.plane_world import PlaneWorld
from tests.support.raw_http import Answer, ask, chat_request, eventually, raw_request
from tests.support.scripted_agent import check_nothing_left
from tests.support.snapshots import ACME, GLOBEX, key_hash, three_tenants, token_of

#: Nothing here waits for a lease or for the moment at which a request becomes a job: both are longer than any pause.
SOON = JobSettings(poll_s=0.02, lease_s=60.0, pause_min_s=0.02, async_after_ms=60_000, attempts_max=3)
ASYNC = {"Prefer": "respond-async"}
ENDS = ("completed", "failed", "cancelled", "expired")

Story = Callable[[PlaneWorld], Awaitable[None]]


def play(folder: Path, story: Story, settings: JobSettings = SOON) -> None:
    """Run a story in a world with jobs; nothing may be left at the agent afterwards."""

    async def run() -> None:
        world = PlaneWorld(folder, job_settings=settings)
        async with world.served():
            await story(world)
        check_nothing_left(world.agent)

    uvloop.run(run())


async def call(
    world: PlaneWorld, method: str, path: str, *, tenant: str = "acme", body: Any = None, **headers: str
) -> Answer:
    content = b"" if body is None else json.dumps(body).encode()
    request = raw_request(content, method=method, path=path, token=token_of(tenant), headers=headers or None)
    return await ask(world.port, request)


async def deferred(world: PlaneWorld, prompt: str, **headers: str) -> str:
    """Ask for what the agent can't do at once; return the job's id."""
    answer = await ask(world.port, chat_request(prompt, headers={**ASYNC, **headers}))
    assert answer.status == 202, answer
    return str(answer.json()["id"])


async def background(world: PlaneWorld, prompt: str, **fields: object) -> str:
    body = {"model": "support", "input": prompt, "background": True, **fields}
    answer = await call(world, "POST", "/v1/responses", body=body)
    assert answer.status == 200, answer
    return str(answer.json()["id"])


async def ended(world: PlaneWorld, job: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found: dict[str, Any] = (await call(world, "GET", f"/v1/jobs/{job}")).json()
            if found["status"] in ENDS:
                return found
            await asyncio.sleep(0.01)


def test_a_request_that_would_wait_becomes_a_job_and_the_job_has_its_answer(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        answer = await ask(world.port, chat_request("hello", headers={"Prefer": "respond-async, wait=200"}))
        assert answer.status == 202
        assert answer.headers["preference-applied"] == "respond-async, wait=200"
        job = answer.json()
        assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
        assert (job["status"], job["model"], job["answer"], job["error"]) == ("queued", "support", None, None)
        world.agent.ready = True
        done = await ended(world, str(job["id"]))
        assert (done["status"], done["route"], done["error"]) == ("completed", "support@2", None)
        assert done["answer"]["object"] == "chat.completion"
        assert done["answer"]["choices"][0]["message"]["content"] == "answer of acme/support@2 1"
        logged = [(entry.outcome, entry.lane, entry.job) for entry in world.entries()]
        assert logged == [("completed", "async", job["id"]), ("accepted", "async", job["id"])]

    play(tmp_path, story)


def test_what_is_hot_at_once_is_answered_at_once_though_it_might_come_later(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        answer = await ask(world.port, chat_request("hello", headers=ASYNC))
        assert answer.status == 200
        assert "preference-applied" not in answer.headers
        assert world.agent.works[0].budget_ms == SOON.async_after_ms

    play(tmp_path, story)


def test_what_comes_late_after_it_was_accepted_becomes_a_job_too(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        headers = {**ASYNC, "Hotset-First-Token-Budget-Ms": "2000"}
        answer = await ask(world.port, chat_request("silent", headers=headers))
        assert answer.status == 202
        assert world.agent.num_aborted == 1, "what ran for it was ended first"
        refused = await ask(world.port, chat_request("silent", headers={"Hotset-First-Token-Budget-Ms": "2000"}))
        assert (refused.status, refused.code) == (429, "first_token_budget_exceeded")
        await call(world, "DELETE", f"/v1/jobs/{answer.json()['id']}")

    play(tmp_path, story)


def test_a_server_that_ends_hands_its_jobs_back_whole(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        job = await background(world, "stall")
        await eventually(lambda: world.agent.open_tickets)
        world.app.begin_shutdown()
        assert world.app.num_in_flight == 1
        assert world.app.stop_running() == 1
        await eventually(lambda: world.app.num_in_flight == 0)
        assert world.jobs is not None
        life = (await world.jobs.peek(ACME, job)).life
        assert (life.state.value, life.attempts, life.lease_until_s) == ("queued", 0, None)

    play(tmp_path, story)


def test_without_the_preference_a_cold_adapter_is_a_refusal(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        answer = await ask(world.port, chat_request("cold", headers={"Prefer": "wait=100"}))
        assert (answer.status, answer.code) == (429, "adapter_cold")

    play(tmp_path, story)


def test_a_wait_that_will_miss_its_budget_becomes_a_job_at_once(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        headers = {"Prefer": "respond-async, wait=50"}
        async with asyncio.timeout(40):
            answer = await ask(world.port, chat_request("wait=60000 hold", headers=headers))
        assert answer.status == 202
        assert answer.headers["location"].startswith("/v1/jobs/")

    play(tmp_path, story)


def test_waiting_for_an_adapter_is_no_failure(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        job = await deferred(world, "full=50")
        await eventually(lambda: len(world.agent.works) > SOON.attempts_max + 2)
        waiting = (await call(world, "GET", f"/v1/jobs/{job}")).json()
        assert waiting["status"] in ("queued", "running")
        assert waiting["attempts"] in (0, 1)
        assert len(world.entries()) == 1, "a try that only waits is no request of its own"

    play(tmp_path, story)


def test_a_failure_is_tried_again_with_bounds_and_what_can_not_go_well_is_not(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        done = await ended(world, await background(world, "fail=engine_failed"))
        assert (done["status"], done["error"]["code"], done["attempts"]) == ("failed", "engine_failed", 3)
        assert "secret" not in json.dumps(done)
        done = await ended(world, await background(world, "fail=context_length_exceeded"))
        assert (done["status"], done["error"]["code"], done["attempts"]) == ("failed", "context_length_exceeded", 1)

    play(tmp_path, story)


def test_another_tenants_job_is_no_job(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        job = await background(world, "stall")
        await eventually(lambda: world.agent.open_tickets)
        for method, path in (
            ("GET", "/v1/jobs/{}"),
            ("DELETE", "/v1/jobs/{}"),
            ("GET", "/v1/responses/{}"),
            ("DELETE", "/v1/responses/{}"),
            ("POST", "/v1/responses/{}/cancel"),
        ):
            foreign = await call(world, method, path.format(job), tenant="globex")
            none = await call(world, method, path.format("resp_" + "0" * 32), tenant="globex")
            assert (foreign.status, foreign.code) == (404, "job_not_found")
            assert bare(foreign) == bare(none)
        assert world.agent.open_tickets
        await call(world, "DELETE", f"/v1/jobs/{job}")

    play(tmp_path, story)


def stored(folder: Path) -> bytes:
    """Every byte of the database."""
    return b"".join(path.read_bytes() for path in folder.glob("hotset.db*"))


def bare(answer: Answer) -> tuple[int, dict[str, object], set[str]]:
    """An answer without what is its own in every answer."""
    body = {name: value for name, value in answer.json().items() if name != "instance"}
    return answer.status, body, set(answer.headers)


def test_a_job_that_runs_is_cancelled_in_the_engine(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        for end in ("cancel", "delete"):
            job = await background(world, "stall")
            await eventually(lambda: world.agent.open_tickets)
            if end == "cancel":
                cancelled = await call(world, "POST", f"/v1/responses/{job}/cancel")
                assert (cancelled.status, cancelled.json()["status"]) == (200, "cancelled")
                again = await call(world, "POST", f"/v1/responses/{job}/cancel")
                assert again.json() == cancelled.json()
            else:
                assert (await call(world, "DELETE", f"/v1/responses/{job}")).json()["deleted"] is True
                assert (await call(world, "GET", f"/v1/jobs/{job}")).status == 404
            await eventually(lambda: not world.agent.open_tickets)
        assert world.agent.num_aborted == 2

    play(tmp_path, story)


def test_the_stock_client_creates_reads_cancels_and_deletes_and_may_send_an_answer_back(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        async with world.client() as client:
            running = await client.responses.create(model="support", input="stall", background=True)
            await eventually(lambda: world.agent.open_tickets)
            assert (await client.responses.retrieve(running.id)).status == "in_progress"
            assert (await client.responses.cancel(running.id)).status == "cancelled"
            await client.responses.delete(running.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(running.id)
            first = await client.responses.create(model="support", input="hello", background=True)
            await ended(world, first.id)
            done = await client.responses.retrieve(first.id)
            assert done.output_text == "answer of acme/support@2 1"
            turns: Any = [{"role": "user", "content": "hello"}, *(item.model_dump() for item in done.output)]
            turns[-1].pop("phase", None)
            second = await client.responses.create(model="support", input=turns, background=True)
            await ended(world, second.id)
            messages = world.agent.works[-1].generate.messages
            assert messages is not None
            assert [(message.role, message.content) for message in messages][1] == ("assistant", done.output_text)

    play(tmp_path, story)


def test_a_revoked_key_stops_jobs_that_wait_and_a_cut_those_that_run(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        running = await background(world, "stall")
        await eventually(lambda: world.agent.open_tickets)
        world.agent.ready = False
        waiting = await background(world, "hello")
        world.app.apply(three_tenants(epoch=2, keys=("globex", "initech")))
        book = world.jobs
        assert book is not None
        async with asyncio.timeout(60):
            while (await book.peek(ACME, waiting)).life.ended_at_s is None:
                await asyncio.sleep(0.01)
        world.app.apply(three_tenants(epoch=3))  # to be able to look
        assert (await ended(world, waiting))["error"]["code"] == "unauthenticated"
        assert (await call(world, "GET", f"/v1/jobs/{running}")).json()["status"] == "running"
        assert world.app.cut(Withdrawal(tenant=ACME, key=KeyId("key-acme"))) == 1
        assert (await ended(world, running))["error"]["code"] == "revoked"

    play(tmp_path, story)


def test_a_grant_that_is_gone_stops_what_waits_under_it(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        job = await background(world, "hello")
        world.app.apply(three_tenants(epoch=2, without=("acme", "support")))
        assert (await ended(world, job))["error"]["code"] == "model_not_found"

    play(tmp_path, story)


def test_an_idempotency_key_leads_to_the_same_job(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        key = {"Idempotency-Key": "order-7"}
        first, again = await deferred(world, "hello", **key), await deferred(world, "hello", **key)
        assert first == again
        other = await ask(world.port, chat_request("bye", headers={**ASYNC, **key}))
        assert (other.status, other.code) == (409, "idempotency_key_reused")
        globex = chat_request("hello", tenant="globex", model="contracts", headers={**ASYNC, **key})
        assert (await ask(world.port, globex)).json()["id"] != first, "a key is one tenant's own"
        bad = await ask(world.port, chat_request("x", headers={**ASYNC, "Idempotency-Key": "k" * 256}))
        assert (bad.status, bad.json()["error"]["param"]) == (400, "idempotency-key")  # type: ignore[index]
        world.agent.ready = True
        await ended(world, first)
        assert await deferred(world, "hello", **key) == first, "also once it has its answer"

    play(tmp_path, story)


def test_what_a_tenant_keeps_is_bounded_in_count_and_bytes(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        jobs = [await deferred(world, "hello") for _ in range(2)]
        full = await ask(world.port, chat_request("hello", headers=ASYNC))
        assert (full.status, full.code) == (429, "too_many_jobs")
        assert full.headers["x-should-retry"] == "false"
        await call(world, "DELETE", f"/v1/jobs/{jobs[0]}")
        large = await ask(world.port, chat_request("x" * (1 << 20), headers=ASYNC))
        assert (large.status, large.code) == (429, "too_many_jobs")
        await deferred(world, "hello")

    play(tmp_path, story, replace(SOON, per_tenant_max=2, bytes_per_tenant_max=1 << 20))


def test_a_tenant_that_may_have_no_jobs_has_none(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.app.apply(replace(three_tenants(epoch=2), without_jobs=frozenset({ACME})))
        cold = await ask(world.port, chat_request("cold", headers={"Prefer": "respond-async, wait=100"}))
        assert (cold.status, cold.code) == (429, "adapter_cold")
        body = {"model": "support", "input": "hi", "background": True}
        refused = await call(world, "POST", "/v1/responses", body=body)
        assert (refused.status, refused.code) == (403, "jobs_forbidden")

    play(tmp_path, story)


def test_no_database_no_202(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        holder = Database(tmp_path / "hotset.db")
        with holder.write() as catalogue:
            catalogue.jobs._connection.exec_driver_sql("ALTER TABLE jobs RENAME TO jobs_gone")
        holder.close()
        answer = await ask(world.port, chat_request("hello", headers=ASYNC))
        assert (answer.status, answer.code) == (503, "jobs_unavailable")
        assert "jobs_gone" not in answer.body.decode()

    play(tmp_path, story)


def test_a_job_that_is_late_expires_and_is_forgotten_in_time(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        world.agent.ready = False
        job = await deferred(world, "hello")
        done = await ended(world, job)
        assert (done["status"], done["error"]["code"]) == ("expired", "job_expired")
        async with asyncio.timeout(60):
            while (await call(world, "GET", f"/v1/jobs/{job}")).status != 404:
                await asyncio.sleep(0.05)

    play(tmp_path, story, replace(SOON, run_within_s=1.0, keep_s=6.0))


def test_nothing_that_is_asked_or_answered_stands_in_the_database(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        await ended(world, await background(world, "text=plutonium", instructions="thorium"))
        content = stored(tmp_path)
        assert b"resp_" in content
        assert b"plutonium" not in content
        assert b"thorium" not in content

    play(tmp_path, story)


def test_jobs_wait_while_interactive_requests_do(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        interactive = asyncio.create_task(ask(world.port, chat_request("hold")))
        await eventually(lambda: world.agent.num_held == 1)
        job = await background(world, "hello")
        await asyncio.sleep(0.3)
        assert (await call(world, "GET", f"/v1/jobs/{job}")).json()["status"] == "queued"
        world.agent.release.set()
        assert (await interactive).status == 200
        assert (await ended(world, job))["status"] == "completed"

    play(tmp_path, story)


def test_a_job_of_another_tenant_runs_beside_many_of_one(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        for _ in range(6):
            await background(world, "hold")
        body = {"model": "contracts", "input": "hello", "background": True}
        other = (await call(world, "POST", "/v1/responses", tenant=GLOBEX, body=body)).json()["id"]
        async with asyncio.timeout(60):
            while (await call(world, "GET", f"/v1/jobs/{other}", tenant=GLOBEX)).json()["status"] != "completed":
                await asyncio.sleep(0.01)
        await eventually(lambda: world.agent.num_held >= SOON.running_max // 2)
        assert world.agent.num_held == SOON.running_max // 2
        world.agent.release.set()

    play(tmp_path, story)


def test_a_key_that_is_bound_to_an_alias_sees_the_jobs_of_that_alias_alone(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        job = await background(world, "hello")
        await ended(world, job)
        snapshot = three_tenants(epoch=2)
        hashed = key_hash(token_of("acme"))
        scoped = replace(snapshot.keys[hashed], aliases=frozenset({"smol"}))
        world.app.apply(replace(snapshot, keys={**snapshot.keys, hashed: scoped}))
        assert (await call(world, "GET", f"/v1/jobs/{job}")).code == "job_not_found"
        assert (await call(world, "POST", f"/v1/responses/{job}/cancel")).code == "job_not_found"

    play(tmp_path, story)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({}, "background", "invalid_request"),
        ({"background": False}, "background", "invalid_request"),
        ({"background": True, "stream": True}, "stream", "unsupported_parameter"),
        ({"background": True, "store": False}, "store", "invalid_request"),
        ({"background": True, "tools": []}, "tools", "unsupported_parameter"),
        ({"background": True, "input": []}, "input", "invalid_request"),
    ],
)
def test_a_response_that_is_not_served_is_a_400_that_names_the_field(
    tmp_path: Path, fields: dict[str, object], param: str, code: str
) -> None:
    async def story(world: PlaneWorld) -> None:
        answer = await call(world, "POST", "/v1/responses", body={"model": "support", "input": "hi", **fields})
        assert (answer.status, answer.code) == (400, code)
        assert answer.json()["error"]["param"] == param  # type: ignore[index]

    play(tmp_path, story)


def test_the_methods_of_the_paths(tmp_path: Path) -> None:
    async def story(world: PlaneWorld) -> None:
        for method, path, allow in (
            ("POST", "/v1/jobs/job_1", "get, delete"),
            ("GET", "/v1/responses/resp_1/cancel", "post"),
            ("PUT", "/v1/responses/resp_1", "get, delete"),
        ):
            answer = await call(world, method, path)
            assert (answer.status, answer.headers["allow"]) == (405, allow)
        streamed = await call(world, "GET", "/v1/responses/resp_1?stream=true")
        assert (streamed.status, streamed.code) == (400, "unsupported_parameter")
        nobody = await ask(world.port, raw_request(b"", method="GET", path="/v1/jobs/job_1"))
        assert (nobody.status, nobody.code) == (401, "unauthenticated")

    play(tmp_path, story)
