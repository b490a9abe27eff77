"""Admin API: who holds snapshots in processes of their own, and which one each applies."""

from hotset.control.answers import Answer
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply


class HolderAnswer(Answer):
    """One gateway or worker in a process of its own."""

    role: str
    name: str
    #: Of the snapshot that it said it applies.
    epoch: int
    linked_for_s: float
    #: Under which a worker serves; 0 for gateways and for a worker that does not serve yet.
    fence: int


class HoldersAnswer(Answer):
    """All that are there, and the epoch that they should apply."""

    epoch: int
    holders: list[HolderAnswer]


def holder_endpoints(control: Control) -> list[Endpoint]:
    """Return the endpoint that lists the holders of snapshots."""

    async def list_all(_call: Call) -> Reply:
        found = [
            HolderAnswer(
                role=view.peer.role,
                name=view.peer.name,
                epoch=view.epoch,
                linked_for_s=view.linked_for_s,
                fence=view.fence,
            )
            for holders in control.holders
            for view in holders.views()
        ]
        return Reply(HoldersAnswer(epoch=control.commits.snapshot.epoch, holders=found))

    return [Endpoint("GET", "/holders", "List who holds snapshots, and of which epoch", list_all, HoldersAnswer)]
