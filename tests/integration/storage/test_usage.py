"""Usage is kept by hour and summed over hours."""

from pathlib import Path

from hotset.core.ids import TenantId
from hotset.core.usage import Usage, UsageBatch
from hotset.storage.database import Database

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
HOUR_S = 3600.0


def test_counters_rise_within_an_hour_and_add_up_over_hours(tmp_path: Path) -> None:
    database = Database(tmp_path / "hotset.db")
    database.migrate()
    with database.write() as catalogue:
        for at_s in (0.0, 3599.0, 3600.0, 9000.0):
            usage = Usage(tenant=ACME, adapter="acme/a", requests=1, prompt_tokens=10, slot_seconds=1.5)
            catalogue.usage.add(usage, at_s)
        catalogue.usage.add(Usage(tenant=GLOBEX, adapter="", requests=7, refused=2), 9000.0)
    with database.read() as catalogue:
        everything = catalogue.usage.sums()
        assert [(each.tenant, each.requests) for each in everything] == [("acme", 4), ("globex", 7)]
        assert (everything[0].prompt_tokens, everything[0].slot_seconds, everything[1].refused) == (40, 6.0, 2)
        assert [each.requests for each in catalogue.usage.sums(3600.0, ACME)] == [2]
        assert [each.requests for each in catalogue.usage.sums(3599.9, ACME)] == [4]
    with database.write() as catalogue:
        catalogue.usage.forget_before(2 * HOUR_S)
    with database.read() as catalogue:
        assert [each.requests for each in catalogue.usage.sums(0.0, ACME)] == [1]
    database.close()


def test_a_batch_counts_once_in_the_hour_in_which_it_was_counted(tmp_path: Path) -> None:
    database = Database(tmp_path / "hotset.db")
    database.migrate()

    def batch(number: int, hour_s: int = 0, stream: str = "s", requests: int = 1) -> UsageBatch:
        return UsageBatch(stream, number, hour_s, [Usage(tenant=ACME, adapter="acme/a", requests=requests)])

    with database.write() as catalogue:
        add = catalogue.usage.add_once
        assert add("gateway", "g1", batch(1), 9000.0)
        assert not add("gateway", "g1", batch(1), 9001.0)
        assert add("gateway", "g1", batch(2, hour_s=3600, requests=10), 9002.0)
        assert not add("gateway", "g1", batch(1, requests=500), 9003.0)
        # Another process, another role, another start: other streams.
        assert add("gateway", "g2", batch(1, requests=100), 9004.0)
        assert add("worker", "g1", batch(1, requests=1000), 9005.0)
        assert add("gateway", "g1", batch(1, stream="t", requests=10_000), 9006.0)
    with database.read() as catalogue:
        assert [each.requests for each in catalogue.usage.sums()] == [11_111]
        assert [each.requests for each in catalogue.usage.sums(HOUR_S)] == [10]
    with database.write() as catalogue:
        catalogue.usage.forget_before(9010.0)
        assert catalogue.usage.add_once("gateway", "g1", batch(1), 9020.0), "what is older than all usage is forgotten"
    database.close()
