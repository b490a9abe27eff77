"""What the fleet of `fleet_truth` serves: one or two bases, adapters of six tenants, quotas, grants, keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotset.cli.client import AdminClient
from hotset.core.base import LINEARS, BaseVersion
from hotset.core.ids import BaseName
from hotset.storage.base_files import read_base_folder
from tests.support.adapters import BASE_NAME, make_adapter, tiny_base_shape
from tests.support.bases import make_tiny_base

TENANTS = tuple(f"tenant-{number}" for number in range(6))
#: Of each worker's slots. The last tenants ask least: their idle reserves are lent, and claimed back.
QUOTAS: Mapping[str, Mapping[str, float]] = {
    "tenant-0": {"reserve_slots": 1, "limit_slots": 3},
    "tenant-3": {"reserve_slots": 1, "limit_slots": 2},
    "tenant-4": {"limit_slots": 1},
    "tenant-5": {"reserve_slots": 1, "limit_slots": 2},
}
RANK_MAX = 16
#: So that adapters of the tiny base are of some size: not all that are at home at a worker fit its local store.
_TINY_LAYERS = 6
_RANKS = (4, 8, 16)
_TARGETS = (("q_proj", "v_proj"), tuple(linear.rpartition(".")[2] for linear in LINEARS), ("o_proj", "gate_proj"))
#: Of an adapter's weights, by base: large enough that no two answers are alike, small enough to stay finite.
_STD = {"tiny": 0.2, "large": 0.15}
#: Every so many adapters, these are for the larger base: among the rarer ones, as its engine is slower.
_DEAL, _DEALT_LARGE = 10, (4, 7, 9)
#: The most popular adapters are called by a second tenant as well, under an alias of its own.
_NUM_SHARED = 2


@dataclass(frozen=True)
class ServedBase:
    """One base."""

    name: str
    folder: Path
    #: Under which name adapters declare it.
    synonym: str
    version: BaseVersion


@dataclass(frozen=True)
class ServedAdapter:
    """One adapter with one version."""

    name: str
    owner: str
    base: str
    folder: Path


@dataclass(frozen=True)
class Model:
    """What one tenant may call, and what answers: an adapter, or (None) the bare base."""

    tenant: str
    alias: str
    adapter: str | None
    base: str

    @property
    def shown(self) -> str:
        """What ``Hotset-Route`` must say."""
        return self.alias if self.adapter is None else f"{self.alias}@1"


@dataclass
class World:
    """All of it."""

    bases: dict[str, ServedBase]
    #: In the order of how often they are asked for.
    adapters: list[ServedAdapter]
    tokens: dict[str, str] = field(default_factory=dict)
    #: ``owner/name@1`` of every version that was approved.
    approved: set[str] = field(default_factory=set)

    def models_of(self, number: int) -> list[Model]:
        """Return how an adapter may be called, by its owner first."""
        adapter = self.adapters[number]
        models = [Model(adapter.owner, adapter.name, adapter.name, adapter.base)]
        if number < _NUM_SHARED:
            models.append(Model(_neighbour(adapter.owner), f"shared/{adapter.name}", adapter.name, adapter.base))
        return models

    def base_model(self, tenant: str, base: str) -> Model:
        """Return how a tenant calls a bare base."""
        return Model(tenant, base, None, base)

    def foreign_model(self, number: int) -> Model:
        """Return an adapter as a tenant would call it that may not."""
        adapter = self.adapters[number]
        stranger = TENANTS[(TENANTS.index(adapter.owner) + 2) % len(TENANTS)]
        return Model(stranger, adapter.name, adapter.name, adapter.base)


def write_world(root: Path, large_base: Path | None, num_adapters: int) -> World:
    """Write adapters and the tiny base below `root`.

    Args:
        root: An empty folder.
        large_base: Folder of a second base; None leaves it at the tiny one.
        num_adapters: Over both bases.
    """
    make_tiny_base(root / "tiny", shape=tiny_base_shape(num_layers=_TINY_LAYERS))
    bases = {"tiny": _base("tiny", root / "tiny", BASE_NAME)}
    if large_base is not None:
        bases["large"] = _base("large", large_base, "acme/large")
    adapters: list[ServedAdapter] = []
    for number in range(num_adapters):
        is_large = large_base is not None and number % _DEAL in _DEALT_LARGE
        base, name = bases["large" if is_large else "tiny"], f"adapter-{number:02d}"
        make_adapter(
            root / name,
            base.version.shape,
            rank=_RANKS[number % len(_RANKS)],
            targets=_TARGETS[number // 2 % len(_TARGETS)],
            std=_STD[base.name],
            seed=number,
            config={"base_model_name_or_path": base.synonym},
        )
        adapters.append(ServedAdapter(name, TENANTS[number % len(TENANTS)], base.name, root / name))
    return World(bases, adapters)


def put_in_place(admin: AdminClient, world: World) -> None:
    """Register, publish, prove, approve, promote and grant everything; issue each tenant a key."""
    for base in world.bases.values():
        admin.post("/bases", {"folder": str(base.folder), "name": base.name, "synonyms": [base.synonym]})
    for tenant in TENANTS:
        admin.post("/tenants", {"tenant": tenant})
        if tenant in QUOTAS:
            admin.post(f"/tenants/{tenant}/quota", dict(QUOTAS[tenant]))
        for base in world.bases:
            admin.post("/grants", {"tenant": tenant, "base": base})
        world.tokens[tenant] = admin.post("/keys", {"tenant": tenant})["token"]
    for number, adapter in enumerate(world.adapters):
        path = f"/adapters/{adapter.owner}/{adapter.name}/versions"
        version = admin.post(path, {"folder": str(adapter.folder), "base": adapter.base})
        for verb in ("prove", "approve", "promote"):
            version = admin.post(f"{path}/{version['number']}/{verb}", {})
        world.approved.add(version["ref"])
        for model in world.models_of(number)[1:]:
            adapter_name = f"{adapter.owner}/{adapter.name}"
            admin.post("/grants", {"tenant": model.tenant, "adapter": adapter_name, "alias": model.alias})


def _base(name: str, folder: Path, synonym: str) -> ServedBase:
    return ServedBase(name, folder, synonym, read_base_folder(folder, BaseName(name), (synonym,)))


def _neighbour(tenant: str) -> str:
    return TENANTS[(TENANTS.index(tenant) + 1) % len(TENANTS)]
