"""Admin API: tenants, keys, grants."""

from typing import cast

from hotset.control import answers, bodies, views
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.tenants import need_tenant
from hotset.core.ids import AdapterId, KeyId, TenantId, parse_alias, parse_base_name, parse_tenant
from hotset.core.quotas import QuotaChange
from hotset.core.terms import DEFAULT_TERMS, TermsChange, change_terms
from hotset.storage.rows import GrantRow, TenantRow


def tenant_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of tenants."""

    async def shown(row: TenantRow) -> answers.TenantAnswer:
        return await control.commits.read(lambda catalogue: views.tenant_answers(catalogue, [row])[0])

    async def add(call: Call) -> Reply:
        body = cast("bodies.TenantBody", call.body)
        return Reply(await shown(await control.tenants.add(call.actor, parse_tenant(body.tenant))), 201)

    async def list_all(_call: Call) -> Reply:
        listed = await control.commits.read(lambda catalogue: views.tenant_answers(catalogue, catalogue.tenants.all()))
        return Reply(answers.TenantsAnswer(tenants=listed))

    async def show(call: Call) -> Reply:
        tenant = _tenant(call)
        return Reply(await shown(await control.commits.read(lambda catalogue: need_tenant(catalogue, tenant))))

    async def suspend(call: Call) -> Reply:
        body = cast("bodies.CutBody", call.body)
        return Reply(await shown(await control.tenants.suspend(call.actor, _tenant(call), cut=body.cut)))

    async def resume(call: Call) -> Reply:
        return Reply(await shown(await control.tenants.resume(call.actor, _tenant(call))))

    async def set_quota(call: Call) -> Reply:
        body = cast("bodies.QuotaBody", call.body)
        change = cast("QuotaChange", body.model_dump(exclude_unset=True))
        return Reply(await shown(await control.tenants.set_quota(call.actor, _tenant(call), change)))

    async def set_terms(call: Call) -> Reply:
        return Reply(await shown(await control.terms.of_tenant(call.actor, _tenant(call), _terms_change(call.body))))

    async def remove(call: Call) -> Reply:
        row = await control.tenants.remove(call.actor, _tenant(call), cut=call.flag("cut"))
        return Reply(await shown(row))

    answer = answers.TenantAnswer
    return [
        Endpoint("POST", "/tenants", "Add a tenant", add, answer, bodies.TenantBody, 201),
        Endpoint("GET", "/tenants", "List tenants", list_all, answers.TenantsAnswer),
        Endpoint("GET", "/tenants/{tenant}", "Show a tenant", show, answer),
        Endpoint("POST", "/tenants/{tenant}/suspend", "Refuse a tenant's requests", suspend, answer, bodies.CutBody),
        Endpoint("POST", "/tenants/{tenant}/resume", "Take a tenant's requests again", resume, answer, bodies.Nothing),
        Endpoint("POST", "/tenants/{tenant}/quota", "Change a tenant's quota", set_quota, answer, bodies.QuotaBody),
        Endpoint("POST", "/tenants/{tenant}/terms", "Change a tenant's terms", set_terms, answer, bodies.TermsBody),
        Endpoint("DELETE", "/tenants/{tenant}", "Remove a tenant", remove, answer, query={"cut": "boolean"}),
    ]


def key_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of API keys."""

    async def issue(call: Call) -> Reply:
        body = cast("bodies.KeyBody", call.body)
        issued = await control.keys.issue(
            call.actor,
            parse_tenant(body.tenant),
            expires_in_s=body.expires_in_s,
            aliases=None if body.aliases is None else frozenset(parse_alias(text) for text in body.aliases),
            label=body.label,
            terms=change_terms(DEFAULT_TERMS, _terms_change(body.terms)),
        )
        return Reply(views.issued_key_answer(issued), 201)

    async def list_all(call: Call) -> Reply:
        tenant = _tenant_query(call)
        rows = await control.commits.read(lambda catalogue: catalogue.keys.all(tenant))
        return Reply(answers.KeysAnswer(keys=[views.key_answer(row) for row in rows]))

    async def set_terms(call: Call) -> Reply:
        row = await control.terms.of_key(call.actor, KeyId(call.param("id")), _terms_change(call.body))
        return Reply(views.key_answer(row))

    async def revoke(call: Call) -> Reply:
        body = cast("bodies.CutBody", call.body)
        row = await control.keys.revoke(call.actor, KeyId(call.param("id")), cut=body.cut)
        return Reply(views.key_answer(row))

    return [
        Endpoint("POST", "/keys", "Issue an API key", issue, answers.IssuedKeyAnswer, bodies.KeyBody, 201),
        Endpoint("GET", "/keys", "List API keys", list_all, answers.KeysAnswer, query={"tenant": "string"}),
        Endpoint("POST", "/keys/{id}/terms", "Change a key's terms", set_terms, answers.KeyAnswer, bodies.TermsBody),
        Endpoint("POST", "/keys/{id}/revoke", "Revoke an API key", revoke, answers.KeyAnswer, bodies.CutBody),
    ]


def grant_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoints of grants."""

    async def shown(rows: list[GrantRow]) -> list[answers.GrantAnswer]:
        return await control.commits.read(lambda catalogue: views.grant_answers(catalogue, rows))

    async def add(call: Call) -> Reply:
        body = cast("bodies.GrantBody", call.body)
        row = await control.grants.add(
            call.actor,
            parse_tenant(body.tenant),
            alias=None if body.alias is None else parse_alias(body.alias),
            adapter=None if body.adapter is None else AdapterId.parse(body.adapter),
            base=None if body.base is None else parse_base_name(body.base),
            first_token_budget_ms=body.first_token_budget_ms,
        )
        return Reply((await shown([row]))[0], 201)

    async def list_all(call: Call) -> Reply:
        tenant = _tenant_query(call)
        rows = await control.commits.read(lambda catalogue: catalogue.grants.all(tenant))
        return Reply(answers.GrantsAnswer(grants=await shown(rows)))

    async def set_terms(call: Call) -> Reply:
        body = cast("bodies.AliasTermsBody", call.body)
        alias = parse_alias(call.param("alias"))
        row = await control.terms.of_alias(call.actor, _tenant(call), alias, body.first_token_budget_ms)
        return Reply((await shown([row]))[0])

    async def remove(call: Call) -> Reply:
        alias = parse_alias(call.param("alias"))
        row = await control.grants.remove(call.actor, _tenant(call), alias, cut=call.flag("cut"))
        return Reply((await shown([row]))[0])

    return [
        Endpoint("POST", "/grants", "Grant an adapter or a base", add, answers.GrantAnswer, bodies.GrantBody, 201),
        Endpoint("GET", "/grants", "List grants", list_all, answers.GrantsAnswer, query={"tenant": "string"}),
        Endpoint(
            "POST",
            "/grants/{tenant}/{alias:path}",
            "Set an alias's default first-token budget",
            set_terms,
            answers.GrantAnswer,
            bodies.AliasTermsBody,
        ),
        Endpoint(
            "DELETE",
            "/grants/{tenant}/{alias:path}",
            "Take a grant back",
            remove,
            answers.GrantAnswer,
            query={"cut": "boolean"},
        ),
    ]


def _tenant(call: Call) -> TenantId:
    return parse_tenant(call.param("tenant"))


def _terms_change(body: object) -> TermsChange:
    return cast("TermsChange", cast("bodies.TermsBody", body).model_dump(exclude_unset=True))


def _tenant_query(call: Call) -> TenantId | None:
    text = call.query("tenant")
    return None if text is None else parse_tenant(text)
