"""Admin API: who holds snapshots in processes of their own, and which one each applies."""

from hotset.control.answers import Answer
from hotset.control.control import Control
from hotset.control.endpoints import Call, Endpoint, Reply
from hotset.control.explaining import unreached_answers
from hotset.control.on_call_answers import UnreachedAnswer


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
    #: Those that are known and not there.
    unreached: list[UnreachedAnswer]


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
        missing = unreached_answers(await control.witness.missing())
        return Reply(HoldersAnswer(epoch=control.commits.snapshot.epoch, holders=found, unreached=missing))

    async def remove_gateway(call: Call) -> Reply:
        await control.gateways.remove(call.actor, call.param("gateway"))
        return await list_all(call)

    return [
        Endpoint("GET", "/holders", "List who holds snapshots, and of which epoch", list_all, HoldersAnswer),
        Endpoint("DELETE", "/gateways/{gateway}", "Forget a gateway that is gone", remove_gateway, HoldersAnswer),
    ]
