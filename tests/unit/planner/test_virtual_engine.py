"""A simulated engine keeps the port's promises, and breaks down as asked."""

from hotset.core.ids import EngineName, RequestId
from hotset.planner.calibration import Calibration
from hotset.planner.protocol import Stamp
from hotset.planner.rules import EngineRules
from hotset.planner.truth import Truth
from hotset.planner.virtual_engine import VirtualEngine
from hotset.sim.world import World

A, B, C = (EngineName(f"hs-{letter}") for letter in "abc")
R1, R2 = RequestId("r1"), RequestId("r2")


class Heard:
    """Keeps what an engine says."""

    def __init__(self) -> None:
        self.steps: list[list[tuple[RequestId, Stamp, bool]]] = []
        self.failures: list[tuple[RequestId, str]] = []
        self.num_deaths = 0

    def tokens(self, tokens: list[tuple[RequestId, Stamp, bool]]) -> None:
        self.steps.append(tokens)

    def failed(self, request: RequestId, code: str) -> None:
        self.failures.append((request, code))

    def gone(self) -> None:
        self.num_deaths += 1


class Bench:
    """An engine of two slots, and what it answered."""

    def __init__(self) -> None:
        self.world, self.heard = World(1), Heard()
        truth = Truth(weights={name: name.encode() for name in (A, B, C)}, approved={A, B, C})
        self.engine = VirtualEngine(
            self.world, "w", Calibration(), self.heard, EngineRules("w", num_slots=2, truth=truth)
        )
        self.answers: list[str | None] = []

    def load(self, *names: EngineName) -> None:
        for name in names:
            self.engine.load(name, name.encode(), self.answers.append)
        self.run()

    def run(self) -> None:
        while self.world.step():
            pass


def test_each_token_says_whose_bytes_it_came_from_and_one_step_serves_all() -> None:
    bench = Bench()
    bench.load(A)
    bench.engine.generate(R1, A, prompt_tokens=5, output_tokens=2)
    bench.engine.generate(R2, None, prompt_tokens=5, output_tokens=1)
    bench.run()
    first, second = bench.heard.steps
    assert first == [(R1, Stamp(A, A.encode()), False), (R2, Stamp(None, b""), True)]
    assert second == [(R1, Stamp(A, A.encode()), True)]


def test_no_more_versions_than_slots_and_what_is_loaded_may_be_loaded_again() -> None:
    bench = Bench()
    bench.load(A, B, C, A)
    assert bench.answers == [None, None, "load_failed", None]
    bench.engine.unload(A, bench.answers.append)
    bench.load(C)
    assert list(bench.engine.loaded) == [B, C]


def test_a_name_that_is_not_loaded_fails_and_never_falls_back_to_the_base() -> None:
    bench = Bench()
    bench.engine.generate(R1, A, 5, 2)
    bench.run()
    assert bench.heard.failures == [(R1, "load_failed")]
    assert not bench.heard.steps


def test_an_abort_is_confirmed_and_ends_the_tokens() -> None:
    bench = Bench()
    confirmed: list[bool] = []
    bench.engine.generate(R1, None, 5, 100)
    bench.world.after(0.05, "abort", lambda: bench.engine.abort(R1, lambda: confirmed.append(True)))
    bench.run()
    assert confirmed == [True]
    assert 0 < len(bench.heard.steps) < 5


def test_an_engine_that_hangs_answers_late() -> None:
    bench = Bench()
    bench.engine.hang(3.0)
    bench.load(A)
    assert bench.answers == [None]
    assert bench.world.now_s >= 3.0


def test_a_mute_engine_answers_nothing_whatever_it_did() -> None:
    loaded = set[bool]()
    for _ in range(1):
        bench = Bench()
        bench.engine.mute_share = 1.0
        for _ in range(40):
            bench.load(A)
            loaded.add(A in bench.engine.loaded)
            bench.engine.unload(A, bench.answers.append)
            bench.run()
    assert not bench.answers
    assert loaded == {True, False}


def test_a_dead_engine_says_so_once_and_does_nothing_more() -> None:
    bench = Bench()
    bench.engine.generate(R1, None, 5, 100)
    bench.world.after(0.05, "death", bench.engine.die)
    bench.world.after(0.06, "death", bench.engine.die)
    bench.run()
    num_steps = len(bench.heard.steps)
    bench.load(A)
    assert bench.heard.num_deaths == 1
    assert not bench.answers
    assert len(bench.heard.steps) == num_steps


def test_inventory_says_what_is_loaded() -> None:
    bench = Bench()
    bench.load(A)
    seen: list[frozenset[EngineName]] = []
    bench.engine.inventory(seen.append)
    bench.run()
    assert seen == [frozenset({A})]
