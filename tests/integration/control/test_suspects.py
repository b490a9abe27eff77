"""What workers suspect becomes a quarantine: once, audited, and never more than a sick machine may cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from hotset.control.fleet_numbers import fleet_numbers
from hotset.control.suspects import HOUR_MAX, INCIDENT_MAX, SUSPICIONS_MAX
from hotset.core.fleet import FlawCode, Suspicion
from hotset.core.ids import Digest, EngineName
from hotset.core.ports import Withdrawal
from tests.support.fleets import facts_of
from tests.support.installation import Installation, installation, run

FLAW: FlawCode = "base_differs"


@dataclass
class Source:
    """Workers that say what a test tells them to."""

    said: dict[str, list[Suspicion]] = field(default_factory=dict[str, list[Suspicion]])

    def suspicions(self) -> Mapping[str, Sequence[Suspicion]]:
        return self.said

    def says(self, worker: str, *names: EngineName, incident: int = 1, num_releases: int = 0) -> None:
        self.said[worker] = [
            Suspicion(version=name, flaw=FLAW, incident=incident, num_releases=num_releases) for name in names
        ]


async def prepared(inst: Installation, num_versions: int) -> tuple[Source, list[EngineName]]:
    """Serve so many adapters; return who speaks for the workers, and the versions' engine names."""
    await inst.add_base()
    await inst.ok("POST", "/tenants", {"tenant": "acme"})
    names = [
        EngineName((await inst.serve(f"acme/a{number}", inst.adapter(f"a{number}", seed=number)))["engine_name"])
        for number in range(num_versions)
    ]
    source = Source()
    inst.control.suspects.sources.append(source)
    return source, names


async def held(inst: Installation) -> int:
    adapters = (await inst.ok("GET", "/adapters"))["adapters"]
    return sum(version["is_quarantined"] for adapter in adapters for version in adapter["versions"])


async def audited(inst: Installation, action: str) -> list[dict[str, object]]:
    entries = (await inst.ok("GET", "/audit?limit=1000"))["entries"]
    return [entry for entry in entries if entry["action"] == action]


def test_a_suspect_is_quarantined_for_the_whole_installation_and_what_runs_on_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (first, second) = await prepared(inst, 2)
            source.says("w1", first)
            await inst.control.suspects.look()
            assert set(inst.holder.newest.versions) == {second}
            version = await inst.ok("GET", "/adapters/acme/a0/versions/1")
            assert (version["is_quarantined"], version["state"]) == (True, "active")
            assert inst.holder.cuts == [Withdrawal(digest=version["digest"])]
            (entry,) = await audited(inst, "version.quarantine")
            assert (entry["actor"], entry["subject"]) == ("watchdog", "acme/a0@1")
            assert entry["details"]["code"] == "base_differs"  # type: ignore[index]
            assert "worker w1" in str(entry["details"])
            assert fleet_numbers(inst.control, inst.clock).quarantines == {"watchdog": 1}

    run(story())


def test_what_is_still_said_after_a_release_counts_no_more_and_a_new_incident_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (name,) = await prepared(inst, 1)
            source.says("w1", name)
            await inst.control.suspects.look()
            await inst.step("acme/a0@1", "release", {"reason": "the machine was bad"})
            for _ in range(2):
                await inst.control.suspects.look()
                assert await held(inst) == 0
            source.says("w1", name, incident=2, num_releases=1)
            await inst.control.suspects.look()
            assert await held(inst) == 1

    run(story())


def test_what_was_suspected_before_a_release_is_void_after_it_also_to_a_control_that_starts_anew(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            _, (name,) = await prepared(inst, 1)
            await inst.step("acme/a0@1", "quarantine", {"reason": "odd"})
            await inst.step("acme/a0@1", "release", {"reason": "the machine was bad"})
        async with installation(tmp_path) as inst:
            source = Source()
            inst.control.suspects.sources.append(source)
            source.says("w1", name)
            await inst.control.suspects.look()
            assert await held(inst) == 0
            source.says("w1", name, incident=2, num_releases=1)
            await inst.control.suspects.look()
            assert await held(inst) == 1

    run(story())


def test_one_incident_and_one_worker_cost_a_bounded_number_of_versions(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, names = await prepared(inst, HOUR_MAX + 2)
            source.says("w1", *names[: INCIDENT_MAX + 1])
            await inst.control.suspects.look()
            await inst.control.suspects.look()
            assert await held(inst) == INCIDENT_MAX
            (entry,) = await audited(inst, "watchdog.ignored")
            assert (entry["actor"], entry["subject"]) == ("watchdog", "worker/w1")
            left = inst.control.commits.snapshot.versions[names[INCIDENT_MAX]].ref
            assert entry["details"] == {"versions": [str(left)], "codes": ["base_differs"], "num_unnamed": 0}
            for number, name in enumerate(names[INCIDENT_MAX:], start=2):
                source.says("w1", name, incident=number)
                await inst.control.suspects.look()
            assert await held(inst) == HOUR_MAX
            source.says("w2", names[-1])
            await inst.control.suspects.look()
            assert await held(inst) == HOUR_MAX + 1
            inst.clock.now_s += 3601.0
            source.says("w1", names[-2], incident=99)
            await inst.control.suspects.look()
            assert await held(inst) == HOUR_MAX + 2

    run(story())


def test_suspicions_of_what_is_not_routed_are_nobodys(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (name,) = await prepared(inst, 1)
            await inst.step("acme/a0@1", "retire")
            source.says("w1", name, EngineName("hs-" + "0" * 32))
            await inst.control.suspects.look()
            assert await held(inst) == 0

    run(story())


def test_a_worker_is_not_believed_of_another_base_than_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (name,) = await prepared(inst, 1)
            base = inst.control.commits.snapshot.versions[name].base
            others = Digest("sha256:" + "0" * 64)
            for worker, of_base in (("w1", others), ("w2", base)):
                await inst.control.fleet.register(replace(facts_of(worker), base=of_base))
            source.says("w1", name)
            await inst.control.suspects.look()
            assert await held(inst) == 0
            assert len(await audited(inst, "watchdog.ignored")) == 1
            source.says("w2", name)
            await inst.control.suspects.look()
            assert await held(inst) == 1

    run(story())


def test_of_what_one_worker_says_at_a_time_only_so_much_is_acted_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (name,) = await prepared(inst, 1)
            unknown = [EngineName(f"hs-{number:032x}") for number in range(SUSPICIONS_MAX)]
            source.says("w1", *unknown, name)
            for _ in range(2):
                await inst.control.suspects.look()
            assert await held(inst) == 0
            (entry,) = await audited(inst, "watchdog.ignored")
            assert entry["details"] == {"versions": [], "codes": [], "num_unnamed": 1}

    run(story())


def test_no_worker_fills_the_audit_log_and_what_had_no_row_is_counted_in_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        async with installation(tmp_path) as inst:
            source, (name,) = await prepared(inst, 1)
            others = Digest("sha256:" + "0" * 64)
            await inst.control.fleet.register(replace(facts_of("w1"), base=others))
            for incident in range(HOUR_MAX + 3):
                source.says("w1", name, incident=incident)
                await inst.control.suspects.look()
            assert len(await audited(inst, "watchdog.ignored")) == HOUR_MAX
            inst.clock.now_s += 3601.0
            source.says("w1", name, incident=99)
            await inst.control.suspects.look()
            *_, newest = await audited(inst, "watchdog.ignored")
            assert newest["details"] == {"versions": ["acme/a0@1"], "codes": ["base_differs"], "num_unnamed": 3}
            assert await held(inst) == 0

    run(story())
