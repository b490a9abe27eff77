"""Admin API: uploads, adapters, versions."""

import asyncio
from pathlib import Path
from typing import cast

from hotset.control import adapter_answers as answers
from hotset.control import adapter_views as views
from hotset.control import bodies
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply, body_chunks, in_pieces
from hotset.control.publishing import Submission
from hotset.core.errors import NotFoundError
from hotset.core.ids import AdapterId, parse_base_name, parse_tenant
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import VersionRow

#: Bytes of an upload that are written at once.
_PIECE_BYTES = 1 << 20
_VERSION = "/adapters/{owner}/{name}/versions/{number}"


def upload_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of uploads."""

    async def create(call: Call) -> Reply:
        call.actor.require("publisher", "reviewer")
        return Reply(answers.UploadAnswer(upload=control.staging.create_upload()), 201)

    async def put(call: Call) -> Reply:
        call.actor.require("publisher", "reviewer")
        name = call.param("filename")
        with control.staging.receive(call.param("upload"), name) as staged:
            # Written in a thread: a disk that stalls must not stall the tokens that this process streams.
            async for piece in in_pieces(body_chunks(call.request), _PIECE_BYTES):
                await asyncio.to_thread(staged.write, piece)
        return Reply(answers.FileAnswer(filename=name, size_bytes=staged.size, digest=staged.digest), 201)

    async def discard(call: Call) -> Reply:
        call.actor.require("publisher", "reviewer")
        await asyncio.to_thread(control.staging.discard_upload, call.param("upload"))
        return Reply(None, 204)

    return [
        Endpoint("POST", "/uploads", "Start an upload", create, answers.UploadAnswer, bodies.Nothing, 201),
        Endpoint("PUT", "/uploads/{upload}/{filename}", "Send one file", put, answers.FileAnswer, status=201),
        Endpoint("DELETE", "/uploads/{upload}", "Throw an upload away", discard, None, status=204),
    ]


def adapter_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints that take adapters in and show them."""

    async def verify(call: Call) -> Reply:
        verdict = await control.publishing.verify(call.actor, _submission(call), call.report)
        return Reply(views.verdict_answer(verdict))

    async def publish(call: Call) -> Reply:
        adapter = call.adapter()
        published = await control.publishing.publish(call.actor, adapter, _submission(call), call.report)
        answer = await control.commits.read(
            lambda catalogue: views.version_answer(catalogue, published.row, is_new=published.is_new)
        )
        return Reply(answer, 201 if published.is_new else 200)

    async def list_all(call: Call) -> Reply:
        text = call.query("owner")
        owner = None if text is None else parse_tenant(text)
        listed = await control.commits.read(lambda catalogue: views.adapter_answers(catalogue, owner))
        return Reply(answers.AdaptersAnswer(adapters=listed))

    async def show(call: Call) -> Reply:
        adapter = call.adapter()
        return Reply(await control.commits.read(lambda catalogue: _adapter(catalogue, adapter)))

    path = "/adapters/{owner}/{name}"
    return [
        Endpoint(
            "POST",
            "/verify",
            "Say whether an adapter would be admitted",
            verify,
            answers.VerdictAnswer,
            bodies.SubmissionBody,
            is_long=True,
        ),
        Endpoint(
            "POST",
            f"{path}/versions",
            "Publish a version",
            publish,
            answers.VersionAnswer,
            bodies.SubmissionBody,
            201,
            is_long=True,
        ),
        Endpoint("GET", "/adapters", "List adapters", list_all, answers.AdaptersAnswer, query={"owner": "string"}),
        Endpoint("GET", path, "Show an adapter", show, answers.AdapterAnswer),
    ]


def version_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of one version's life."""

    async def show(call: Call) -> Reply:
        return await _reply(control, await control.approving.get(call.version()))

    async def prove(call: Call) -> Reply:
        return await _reply(control, await control.proving.prove(call.actor, call.version(), call.report))

    async def approve(call: Call) -> Reply:
        body = cast("bodies.ApproveBody", call.body)
        return await _reply(
            control,
            await control.approving.approve(call.actor, call.version(), accept_unprovable=body.accept_unprovable),
        )

    async def promote(call: Call) -> Reply:
        return await _reply(control, await control.approving.promote(call.actor, call.version()))

    async def retire(call: Call) -> Reply:
        body = cast("bodies.CutBody", call.body)
        return await _reply(control, await control.approving.retire(call.actor, call.version(), cut=body.cut))

    async def purge(call: Call) -> Reply:
        return await _reply(control, await control.approving.purge(call.actor, call.version()))

    path, answer = _VERSION, answers.VersionAnswer
    return [
        Endpoint("GET", path, "Show a version", show, answer),
        Endpoint("POST", f"{path}/prove", "Prove on an engine", prove, answer, bodies.Nothing, is_long=True),
        Endpoint("POST", f"{path}/approve", "Sign that it may be served", approve, answer, bodies.ApproveBody),
        Endpoint("POST", f"{path}/promote", "Make it the active one", promote, answer, bodies.Nothing),
        Endpoint("POST", f"{path}/retire", "Never serve it again", retire, answer, bodies.CutBody),
        Endpoint("POST", f"{path}/purge", "Erase its bytes", purge, answer, bodies.Nothing),
    ]


def withholding_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints that keep a version from being served."""

    async def quarantine(call: Call) -> Reply:
        body = cast("bodies.QuarantineBody", call.body)
        return await _reply(
            control, await control.withholding.quarantine(call.actor, call.version(), body.reason, cut=body.cut)
        )

    async def release(call: Call) -> Reply:
        body = cast("bodies.ReasonBody", call.body)
        return await _reply(control, await control.withholding.release(call.actor, call.version(), body.reason))

    async def ban(call: Call) -> Reply:
        body = cast("bodies.ReasonBody", call.body)
        return await _reply(control, await control.withholding.ban(call.actor, call.version(), body.reason))

    path, answer = _VERSION, answers.VersionAnswer
    return [
        Endpoint("POST", f"{path}/quarantine", "Hold its bytes back", quarantine, answer, bodies.QuarantineBody),
        Endpoint("POST", f"{path}/release", "End its quarantine", release, answer, bodies.ReasonBody),
        Endpoint("POST", f"{path}/ban", "Ban its digest for ever", ban, answer, bodies.ReasonBody),
    ]


async def _reply(control: Control, row: VersionRow) -> Reply:
    return Reply(await control.commits.read(lambda catalogue: views.version_answer(catalogue, row)))


def _submission(call: Call) -> Submission:
    body = cast("bodies.SubmissionBody", call.body)
    return Submission(
        base=parse_base_name(body.base),
        rank_max=body.rank_max,
        overrides=frozenset(body.overrides),
        upload=body.upload,
        folder=None if body.folder is None else Path(body.folder),
        ignored=tuple(body.ignored),
    )


def _adapter(catalogue: Catalogue, adapter: AdapterId) -> answers.AdapterAnswer:
    row = catalogue.adapters.get(adapter)
    if row is None:
        raise NotFoundError(f"There is no adapter {adapter}; see `hotset adapter list`.", param="adapter")
    return views.adapter_answer(catalogue, row)
