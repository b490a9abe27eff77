"""Commands on gateways: to forget one that is gone for good, so that nobody misses it any more."""

from collections.abc import Sequence

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.control.holders import Holders
from hotset.core.errors import ConflictError, NotFoundError


class Gateways:
    """Gateways: one method a command."""

    def __init__(self, commits: Commits, holders: Sequence[Holders]) -> None:
        self._commits = commits
        self._holders = holders

    async def remove(self, actor: Actor, gateway: str) -> None:
        """Forget a gateway that is not linked; should it come back, it registers as a new one.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such gateway.
            ConflictError: it is linked.
        """
        actor.require("admin")
        views = (view for holders in self._holders for view in holders.views())
        if any((view.peer.role, view.peer.name) == ("gateway", gateway) for view in views):
            raise ConflictError(f"Gateway {gateway!r} is there; stop it first.", param="gateway")

        def act(change: Change) -> None:
            if not change.catalogue.gateways.remove(gateway):
                raise NotFoundError(f"There is no gateway {gateway!r}.", param="gateway")
            change.audit("gateway.remove", gateway)

        await self._commits.run(actor, act)
