"""Usage is kept by hour and summed over hours."""

from pathlib import Path

from hotset.core.ids import TenantId
from hotset.core.usage import Usage
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
