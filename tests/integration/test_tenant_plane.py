"""The tenant plane over real sockets, with the official client and a scripted agent."""

from pathlib import Path

import openai
import pytest
import uvloop

from hotset.core.errors import HotsetError
from hotset.gateway.problems import STATUSES
from tests.support.plane_world import PlaneWorld
from tests.support.scripted_agent import PROMPT_TOKENS, check_nothing_left
from tests.support.snapshots import three_tenants


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_the_official_client_gets_a_whole_chat_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            raw = await client.chat.completions.with_raw_response.create(
                model="support", messages=user("pieces=3"), n=2, logprobs=True, top_logprobs=2, user="someone"
            )
            answer = raw.parse()
            assert answer.model == "support"
            assert [choice.index for choice in answer.choices] == [0, 1]
            assert answer.choices[1].message.content == "answer of acme/support@2 1 2"
            assert answer.choices[0].finish_reason == "stop"
            assert answer.choices[0].logprobs.content[0].top_logprobs[1].token == "t1"
            assert bytes(answer.choices[0].logprobs.content[0].bytes).decode() == "answer of acme/support@2"
            assert answer.usage.prompt_tokens == PROMPT_TOKENS
            assert answer.usage.completion_tokens == 6
            assert raw.headers["hotset-route"] == "support@2"
            assert raw.headers["hotset-lane"] == "hot"
            assert [part.split(";")[0] for part in raw.headers["server-timing"].split(", ")] == [
                "auth",
                "queue",
                "load",
                "engine",
            ]
            assert answer.id == "chatcmpl-" + raw.headers["x-request-id"]
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_the_official_client_gets_a_streamed_chat_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            stream = await client.chat.completions.create(
                model="eu/faq",
                messages=user("pieces=3 load"),
                n=2,
                stream=True,
                stream_options={"include_usage": True},
            )
            assert stream.response.headers["hotset-lane"] == "loading"
            assert "load;dur=250" in stream.response.headers["server-timing"]
            chunks = [chunk async for chunk in stream]
            first, last = chunks[0], chunks[-1]
            assert first.choices[0].delta.role == "assistant"
            assert last.choices == []
            assert last.usage.total_tokens == PROMPT_TOKENS + 6
            assert {chunk.model for chunk in chunks} == {"eu/faq"}
            assert len({chunk.id for chunk in chunks}) == 1
            for index in (0, 1):
                mine = [chunk.choices[0] for chunk in chunks if chunk.choices and chunk.choices[0].index == index]
                text = "".join(choice.delta.content or "" for choice in mine)
                assert text == "answer of acme/faq@1 1 2"
                assert [choice.finish_reason for choice in mine] == [None, None, None, "stop"]

    uvloop.run(story())


def test_usage_comes_only_where_it_was_asked_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            stream = await client.chat.completions.create(model="support", messages=user("hi"), stream=True)
            chunks = [chunk async for chunk in stream]
            assert all(chunk.choices and chunk.usage is None for chunk in chunks)
            assert world.entries()[0].completion_tokens == 2

    uvloop.run(story())


def test_text_completions_take_texts_and_token_ids(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            answer = await client.completions.create(model="smol", prompt=["pieces=2", "b"], n=2, logprobs=1)
            assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
            assert answer.choices[3].text == "answer of base@0 1"
            assert answer.choices[0].logprobs.text_offset == [0, len("answer of base@0")]
            assert answer.choices[0].logprobs.top_logprobs[0] == {"t0": -1.0}
            await client.completions.create(model="smol", prompt=[1, 2, 3])
            await client.completions.create(model="smol", prompt=[[1, 2], [3]])
            prompts = [work.generate.prompts for work in world.agent.works]
            assert prompts == [("pieces=2", "b"), ((1, 2, 3),), ((1, 2), (3,))]
            stream = await client.completions.create(model="smol", prompt="pieces=4 burst", stream=True)
            texts = [chunk.choices[0].text async for chunk in stream]
            assert "".join(texts) == "answer of base@0 1 2 3"

    uvloop.run(story())


def test_an_answer_may_be_sent_back_as_the_next_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            messages = user("hi")
            answer = await client.chat.completions.create(model="support", messages=messages)
            messages = [*messages, answer.choices[0].message, *user("and?")]
            await client.chat.completions.create(model="support", messages=messages)
            roles = [message.role for message in world.agent.works[-1].generate.messages]
            assert roles == ["user", "assistant", "user"]

    uvloop.run(story())


def test_what_is_listed_is_what_can_be_called(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            listed: dict[str, list[str]] = {}
            for tenant in ("acme", "globex", "initech"):
                async with world.client(tenant) as client:
                    models = [model async for model in client.models.list()]
                    listed[tenant] = [model.id for model in models]
                    for model in models:
                        assert (await client.models.retrieve(model.id)).id == model.id
                        await client.chat.completions.create(model=model.id, messages=user("hi"))
            assert listed["acme"] == ["eu/faq", "eu/faq@1", "smol", "support", "support@1", "support@2"]
            assert listed["globex"] == ["contracts", "contracts@1"]
            async with world.client("acme") as client:
                page = (await client.models.retrieve("eu/faq")).to_dict()
                assert page == {
                    "id": "eu/faq",
                    "object": "model",
                    "created": 1_700_000_000,
                    "owned_by": "acme",
                    "parent": "smol",
                    "max_model_len": 2048,
                }
                for foreign in listed["globex"]:
                    with pytest.raises(openai.NotFoundError):
                        await client.models.retrieve(foreign)

    uvloop.run(story())


@pytest.mark.parametrize(
    ("prompt", "error", "code"),
    [
        ("full", openai.RateLimitError, "slots_full"),
        ("badload", openai.InternalServerError, "load_failed"),
        ("fail=context_length_exceeded", openai.BadRequestError, "context_length_exceeded"),
        ("fail=engine_failed", openai.InternalServerError, "engine_failed"),
        ("fail=whatever_this_is", openai.InternalServerError, "engine_failed"),
        ("fail=unauthenticated", openai.InternalServerError, "engine_failed"),
        ("bug", openai.InternalServerError, "internal"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_error_before_the_first_byte_has_its_status(
    tmp_path: Path, prompt: str, error: type[openai.APIStatusError], code: str, *, is_stream: bool
) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            with pytest.raises(error) as caught:
                await client.chat.completions.create(model="support", messages=user(prompt), stream=is_stream)
            assert caught.value.code == code
            text = caught.value.response.text
            assert "secret" not in text or code == "context_length_exceeded"
            assert "hs-01" not in text
            assert caught.value.response.headers["content-type"] == "application/problem+json"
            assert caught.value.response.headers["x-request-id"] == world.entries()[0].request_id
            assert world.entries()[0].code == code
            if code == "slots_full":
                assert caught.value.response.headers["retry-after"] == "2"
                assert caught.value.response.headers["retry-after-ms"] == "1500"
                assert caught.value.response.json()["retry_after_ms"] == 1500
                assert world.entries()[0].outcome == "refused"
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_an_error_within_a_stream_is_an_event_and_no_done_follows(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            for prompt, code in (("failmid=engine_failed", "engine_failed"), ("die", "engine_failed")):
                stream = await client.chat.completions.create(model="support", messages=user(prompt), stream=True)
                texts = list[str]()
                with pytest.raises(openai.APIError) as caught:
                    async for chunk in stream:
                        texts.append(chunk.choices[0].delta.content or "")
                assert caught.value.code == code
                assert "secret" not in str(caught.value.body)
                assert "".join(texts) == "answer of acme/support@2"
                assert world.entries()[0].outcome == "failed"
                assert world.entries()[0].completion_tokens == 1
            check_nothing_left(world.agent)

    uvloop.run(story())


def test_a_wrong_or_absent_key_is_challenged(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world:
            bodies = set[str]()
            for token in ("hs_wrong", "x", "hs_acme_0123456789abcdeF"):
                async with world.client(token=token) as client:
                    with pytest.raises(openai.AuthenticationError) as caught:
                        await client.models.list()
                    assert caught.value.response.headers["www-authenticate"].startswith("Bearer")
                    bodies.add(str(caught.value.body))
            assert len(bodies) == 1
            assert world.entries() == []

    uvloop.run(story())


def test_health_and_readiness(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path).served() as world, world.client() as client:
            http = client._client
            assert (await http.get(world.base_url + "/healthz")).status_code == 200
            assert (await http.get(world.base_url + "/readyz")).status_code == 200
            assert world.app.is_ready
            world.agent.ready = False
            assert (await http.get(world.base_url + "/readyz")).json() == {"status": "no_engine"}
            assert not world.app.is_ready
            with pytest.raises(openai.InternalServerError) as caught:
                await client.chat.completions.create(model="support", messages=user("hi"))
            assert caught.value.code == "engine_unavailable"
            world.agent.ready = True
            world.app.begin_shutdown()
            assert (await http.get(world.base_url + "/readyz")).status_code == 503
            assert not world.app.is_ready
            with pytest.raises(openai.InternalServerError) as caught:
                await client.chat.completions.create(model="support", messages=user("hi"))
            assert caught.value.code == "shutting_down"
            response = await http.get(world.base_url + "/v1/chat/completions")
            assert (response.status_code, response.headers["allow"]) == (405, "POST")
            response = await http.post(world.base_url + "/v1/models")
            assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
            assert (await http.get(world.base_url + "/v1/models/")).status_code == 401
            assert (await http.get(world.base_url + "/admin/v1/tenants")).status_code == 404
            assert (await http.get(world.base_url + "/metrics")).status_code == 404

    uvloop.run(story())


def test_older_snapshots_are_ignored_and_running_answers_keep_their_route(tmp_path: Path) -> None:
    async def story() -> None:
        async with PlaneWorld(tmp_path, snapshot=three_tenants(epoch=5)).served() as world, world.client() as client:
            world.app.apply(three_tenants(epoch=4, keys=()))
            assert world.app.snapshot.epoch == 5
            world.agent.step_s = 0.02
            stream = await client.chat.completions.create(model="support", messages=user("pieces=5"), stream=True)
            world.app.apply(three_tenants(epoch=6, keys=()))
            assert len([chunk async for chunk in stream]) == 6
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()

    uvloop.run(story())


def test_every_error_a_tenant_meets_has_a_status_and_a_code() -> None:
    assert all(issubclass(leaf, HotsetError) and leaf.code != "internal" for leaf in STATUSES)
