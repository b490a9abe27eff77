"""Admin API: the installation, its operators, store, audit log and bases."""

from pathlib import Path
from typing import cast

from hotset.control import answers, bodies, views
from hotset.control.actors import parse_roles
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.core.ids import parse_base_name
from hotset.storage.catalogue import Catalogue


def installation_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of the installation as a whole and of its operators."""

    async def status(_call: Call) -> Reply:
        return Reply(await control.commits.read(lambda catalogue: _status(catalogue, control)))

    async def add_operator(call: Call) -> Reply:
        body = cast("bodies.OperatorBody", call.body)
        issued = await control.operators.add(call.actor, body.name, parse_roles(body.roles))
        return Reply(views.issued_operator_answer(issued), 201)

    async def list_operators(call: Call) -> Reply:
        call.actor.require("admin")
        rows = await control.commits.read(lambda catalogue: catalogue.operators.all())
        return Reply(answers.OperatorsAnswer(operators=[views.operator_answer(row) for row in rows]))

    async def revoke_operator(call: Call) -> Reply:
        return Reply(views.operator_answer(await control.operators.revoke(call.actor, call.param("id"))))

    return [
        Endpoint("GET", "/status", "The installation at a glance", status, answers.StatusAnswer),
        Endpoint(
            "POST",
            "/operators",
            "Make an operator token",
            add_operator,
            answers.IssuedOperatorAnswer,
            bodies.OperatorBody,
            201,
        ),
        Endpoint("GET", "/operators", "List operators", list_operators, answers.OperatorsAnswer),
        Endpoint(
            "POST",
            "/operators/{id}/revoke",
            "Revoke an operator token",
            revoke_operator,
            answers.OperatorAnswer,
            bodies.Nothing,
        ),
    ]


def store_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of the trusted store and the audit log."""

    async def collect_garbage(call: Call) -> Reply:
        freed = await control.upkeep.collect_garbage(call.actor)
        answer = answers.FreedAnswer(num_blobs=freed.num_blobs, bytes=freed.num_bytes, num_staging=freed.num_staging)
        return Reply(answer)

    async def verify_store(call: Call) -> Reply:
        found = await control.upkeep.verify_store(call.actor, call.report)
        damaged, missing = list[str](found.damaged), list[str](found.missing)
        return Reply(
            answers.StoreAnswer(num_blobs=found.num_blobs, bytes=found.num_bytes, damaged=damaged, missing=missing)
        )

    async def list_audit(call: Call) -> Reply:
        after, limit = call.number("after", 0), call.number("limit", 100)
        rows = await control.upkeep.audit_entries(call.actor, after, limit)
        return Reply(answers.AuditAnswer(entries=[views.audit_answer(row) for row in rows]))

    async def verify_audit(call: Call) -> Reply:
        found = await control.upkeep.verify_audit(call.actor)
        return Reply(
            answers.AuditVerdictAnswer(
                num_entries=found.num_entries, is_intact=found.first_broken is None, first_broken=found.first_broken
            )
        )

    paging = {"after": "integer", "limit": "integer"}
    return [
        Endpoint("POST", "/store/gc", "Free what nothing names", collect_garbage, answers.FreedAnswer, bodies.Nothing),
        Endpoint(
            "POST",
            "/store/verify",
            "Hash every blob",
            verify_store,
            answers.StoreAnswer,
            bodies.Nothing,
            is_long=True,
        ),
        Endpoint("GET", "/audit", "Read the audit log", list_audit, answers.AuditAnswer, query=paging),
        Endpoint("GET", "/audit/verify", "Check the audit log's chain", verify_audit, answers.AuditVerdictAnswer),
    ]


def base_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of base versions."""

    async def add(call: Call) -> Reply:
        body = cast("bodies.BaseBody", call.body)
        added = await control.bases.add(
            call.actor, Path(body.folder), parse_base_name(body.name), tuple(body.synonyms), call.report
        )
        return Reply(views.base_answer(added.row), 201 if added.is_new else 200)

    async def list_all(_call: Call) -> Reply:
        rows = await control.commits.read(lambda catalogue: catalogue.bases.all())
        return Reply(answers.BasesAnswer(bases=[views.base_answer(row) for row in rows]))

    async def show(call: Call) -> Reply:
        return Reply(views.base_answer(await control.bases.get(parse_base_name(call.param("name")))))

    async def check(call: Call) -> Reply:
        row = await control.bases.check_files(call.actor, parse_base_name(call.param("name")), call.report)
        return Reply(views.base_answer(row))

    return [
        Endpoint(
            "POST", "/bases", "Register a base version", add, answers.BaseAnswer, bodies.BaseBody, 201, is_long=True
        ),
        Endpoint("GET", "/bases", "List base versions", list_all, answers.BasesAnswer),
        Endpoint("GET", "/bases/{name}", "Show a base version", show, answers.BaseAnswer),
        Endpoint(
            "POST",
            "/bases/{name}/check",
            "Hash a base's files again",
            check,
            answers.BaseAnswer,
            bodies.Nothing,
            is_long=True,
        ),
    ]


def _status(catalogue: Catalogue, control: Control) -> answers.StatusAnswer:
    return answers.StatusAnswer(
        version=control.version,
        epoch=catalogue.epoch(),
        one_person=control.is_one_person,
        reviewer_key=control.reviewer_key,
        num_bases=len(catalogue.bases.all()),
        num_tenants=sum(1 for row in catalogue.tenants.all() if row.state != "removed"),
        num_adapters=len(catalogue.adapters.all()),
        num_keys=sum(1 for row in catalogue.keys.all() if row.revoked_at_s is None),
        is_frozen=catalogue.is_frozen(),
    )
