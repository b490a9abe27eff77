"""Commands on workers: which take requests, and whether any may load, evict or be rolled out to."""

from hotset.control.actors import Actor
from hotset.control.commits import Change, Commits
from hotset.core.errors import ConflictError, NotFoundError
from hotset.core.fleet import WorkerState
from hotset.core.ids import WorkerId
from hotset.storage.catalogue import Catalogue
from hotset.storage.rows import WorkerRow

_VERBS: dict[WorkerState, str] = {"serving": "uncordon", "cordoned": "cordon", "draining": "drain"}


class Workers:
    """Workers: one method a command."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def set_state(self, actor: Actor, worker: WorkerId, state: WorkerState) -> WorkerRow:
        """Cordon a worker (no more requests are sent there), drain it (it refuses what still comes), or take it back.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such worker.
        """
        actor.require("admin")

        def act(change: Change) -> WorkerRow:
            row = need_worker(change.catalogue, worker)
            if row.state != state:
                change.catalogue.workers.change_state(worker, state)
                change.audit(f"worker.{_VERBS[state]}", worker)
            return need_worker(change.catalogue, worker)

        return await self._commits.run(actor, act)

    async def remove(self, actor: Actor, worker: WorkerId) -> WorkerRow:
        """Forget a worker that is lost; should it come back, it registers as a new one.

        Raises:
            PermissionDeniedError: the actor is no admin.
            NotFoundError: there is no such worker.
            ConflictError: it is not lost.
        """
        actor.require("admin")

        def act(change: Change) -> WorkerRow:
            row = need_worker(change.catalogue, worker)
            if not row.is_lost:
                raise ConflictError(f"Worker {worker!r} is there; stop it first.", param="worker")
            change.catalogue.workers.remove(worker)
            change.audit("worker.remove", worker)
            return row

        return await self._commits.run(actor, act)

    async def freeze(self, actor: Actor, *, is_frozen: bool) -> bool:
        """Stop all loads, evictions and rollouts, or let them go on; return whether they are stopped.

        Raises:
            PermissionDeniedError: the actor is no admin.
        """
        actor.require("admin")

        def act(change: Change) -> bool:
            if change.catalogue.is_frozen() != is_frozen:
                change.catalogue.freeze(is_frozen=is_frozen)
                change.audit("freeze" if is_frozen else "unfreeze", "fleet")
            return is_frozen

        return await self._commits.run(actor, act)


def need_worker(catalogue: Catalogue, worker: WorkerId) -> WorkerRow:
    """Return the worker, lost or not.

    Raises:
        NotFoundError: no such worker ever registered, or it was removed.
    """
    row = catalogue.workers.get(worker)
    if row is None:
        raise NotFoundError(f"There is no worker {worker!r}; see `hotset worker list`.", param="worker")
    return row
