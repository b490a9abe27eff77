"""Hands a bound request to the agent of its base."""

from hotset.admission.prompt_length import estimated_tokens
from hotset.core.errors import EngineUnavailableError
from hotset.core.ids import engine_name
from hotset.core.messages import Generate
from hotset.core.ports import OnWaiting, Ticket, Work
from hotset.gateway.accounting import Account
from hotset.gateway.authenticate import Caller
from hotset.gateway.parse import Asked
from hotset.gateway.plane import Plane
from hotset.routing.resolve import Resolved


async def submit(
    plane: Plane,
    account: Account,
    caller: Caller,
    asked: Asked,
    bound: Resolved,
    *,
    budget_ms: int | None,
    epoch: int,
    on_waiting: OnWaiting | None = None,
) -> Ticket:
    """Return the accepted request's ticket; see `core.ports.Agent.submit` for what else it may raise.

    Args:
        plane: Knows the agents.
        account: The request's; its meter takes the prompt's estimated tokens.
        caller: On whose behalf.
        asked: What to generate.
        bound: The route, for the request's whole life.
        budget_ms: What is left of the first-token budget; None sets none.
        epoch: Of the snapshot in which the route was resolved.
        on_waiting: Hears, before anything else, that the request waits.

    Raises:
        TokenRateExceededError: the tenant or the key used its tokens up.
        EngineUnavailableError: no agent serves the base.
    """
    agent = plane.agents.get(bound.route.base)
    if agent is None:
        raise EngineUnavailableError
    request_id, tenant = account.request_id, caller.key.tenant
    generate = Generate(
        request_id=request_id,
        engine_name=engine_name(bound.route),
        cache_salt=plane.salts.of(tenant),
        sampling=asked.sampling,
        messages=asked.messages,
        prompts=asked.prompts,
        n=asked.n,
    )
    if account.meter.is_bound:
        account.meter.expect(estimated_tokens(generate), plane.clock.monotonic_s())
    work = Work(request_id, tenant, caller.key.key, bound.route, generate, budget_ms, epoch)
    return await agent.submit(work, on_waiting)
