"""What a tenant that rotates through many adapters does to tenants inside their reserves, on one simulated worker.

As `hotset bench rotation` measures it on a real engine: two victims ask at a steady rate with random gaps for hot
adapters inside their reserves; a third keeps as many requests in flight on as many hot adapters as slots are left (the
control), or on the next of many (the rotation).
"""

import itertools
from dataclasses import dataclass, field
from functools import partial

from hotset.core.ids import TenantId
from hotset.core.quotas import Quota
from hotset.core.versions import VersionRecord
from hotset.planner.calibration import Calibration
from hotset.planner.effect_runner import WorkerShape
from hotset.planner.one_worker import EVERYBODY, OneWorker, Served, between
from hotset.residency.reuse import ReuseModel
from hotset.sim.world import World

VICTIMS = (TenantId("acme"), TenantId("birch"))
ROTATING = TenantId("rotating")
#: So many that the churn budget bounds nothing: what is seen is who turns over whose slots.
_LOADS_PER_MINUTE = 60_000.0
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationShape:
    """The worker and its tenants."""

    num_slots: int = 8
    #: Requests kept in the engine at a time.
    sequences_max: int = 16
    #: Hot adapters, and slots of reserve, of each victim.
    victim_adapters: int = 2
    #: Requests a second of each victim.
    victim_rate: float = 2.0
    rotating_adapters: int = 40
    in_flight: int = 8
    input_tokens: int = 16
    output_tokens: int = 12
    rank: int = 8
    seconds: float = 120.0
    warmup_s: float = 10.0
    calibration: Calibration = field(default_factory=Calibration)


@dataclass(frozen=True, slots=True)
class RotationTaken:
    """What one block's clients saw, after its warm-up."""

    #: Of the victims' requests; of one without a token by the end, until then, and of one refused, the whole block.
    first_token_s: tuple[float, ...]
    tokens_per_s: float
    num_refused: int


def simulate_rotation(
    shape: RotationShape, seed: int, *, is_control: bool, plain: ReuseModel | None = None
) -> RotationTaken:
    """Run one block.

    Args:
        shape: What to run.
        seed: Of the victims' gaps and choices; the same in the control and in the rotation.
        is_control: Whether the third tenant stays with as many adapters as slots are left to it.
        plain: With it all tenants pass for one, nobody is owed anything, and it says which idle slot goes.
    """
    block = _Block(shape, seed, is_control=is_control, plain=plain)
    end_s = shape.warmup_s + shape.seconds
    block.worker.run_until(end_s)
    counted = between(block.worker.served, shape.warmup_s, end_s)
    victims = [each for each in counted if each.tenant != ROTATING]
    tokens = sum(shape.warmup_s <= at_s for each in block.worker.served for at_s in each.token_at_s)
    return RotationTaken(
        tuple(_waited_s(each, shape, end_s) for each in victims),
        tokens / shape.seconds,
        sum(bool(each.code) for each in counted),
    )


def _waited_s(served: Served, shape: RotationShape, end_s: float) -> float:
    if (first_token_s := served.first_token_s) is not None:
        return first_token_s
    return shape.seconds if served.code else end_s - served.asked_at_s


class _Block:
    def __init__(self, shape: RotationShape, seed: int, *, is_control: bool, plain: ReuseModel | None) -> None:
        self._shape = shape
        self._world = World(seed)
        worker_shape = WorkerShape(
            num_slots=shape.num_slots,
            sequences_max=shape.sequences_max,
            waiting_max=2048,
            load_timeout_s=120.0,
            effect_timeout_s=60.0,
            loads_per_minute=_LOADS_PER_MINUTE,
            warm_bytes_max=4 << 30,
            calibration=shape.calibration,
        )
        counts = {**dict.fromkeys(VICTIMS, shape.victim_adapters), ROTATING: shape.rotating_adapters}
        self.worker = OneWorker(
            self._world, worker_shape, counts, rank=shape.rank, reuse=plain, is_one_account=plain is not None
        )
        every_slot = Quota(limit_slots=shape.num_slots)
        quotas = {tenant: Quota(reserve_slots=shape.victim_adapters) for tenant in VICTIMS}
        self.worker.permit({EVERYBODY: every_slot} if plain is not None else {**quotas, ROTATING: every_slot})
        many = self.worker.records[ROTATING]
        left = shape.num_slots - len(VICTIMS) * shape.victim_adapters
        self._turns = itertools.cycle(many[:left] if is_control else many)
        self._rng_of = {tenant: self._world.randomness(f"{tenant}'s gaps") for tenant in VICTIMS}
        for tenant in VICTIMS:
            self._ask_later(tenant)
        for _ in range(shape.in_flight):
            self._world.after(0.0, "the rotation begins", self._rotate)

    def _ask_later(self, tenant: TenantId) -> None:
        gap_s = self._rng_of[tenant].expovariate(self._shape.victim_rate)
        self._world.after(gap_s, f"{tenant} asks", partial(self._ask_steadily, tenant))

    def _ask_steadily(self, tenant: TenantId) -> None:
        self._ask(tenant, self._rng_of[tenant].choice(self.worker.records[tenant]))
        self._ask_later(tenant)

    def _rotate(self) -> None:
        self._ask(ROTATING, next(self._turns))

    def _ask(self, tenant: TenantId, record: VersionRecord) -> None:
        shape = self._shape
        on_end = self._again if tenant == ROTATING else _nothing
        self.worker.ask(
            tenant, record, input_tokens=shape.input_tokens, output_tokens=shape.output_tokens, on_end=on_end
        )

    def _again(self, served: Served) -> None:
        self._world.after(_PAUSE_S if served.code else 0.0, "the rotation goes on", self._rotate)


def _nothing(_: Served) -> None:
    """A victim asks at its rate, whatever becomes of its requests."""
