"""What was withdrawn lately together with the requests that run on it; snapshots carry it to the gateways."""

from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from hotset.core.ports import Withdrawal
from hotset.core.snapshot import Cut
from hotset.storage.schema import CUTS


class Cuts:
    """Typed reads and writes of cuts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, epoch: int, withdrawals: Iterable[Withdrawal], now_s: float) -> None:
        """Record that the snapshot of this epoch ends what these cover."""
        rows = [
            {"epoch": epoch, "withdrawal_json": msgspec.json.encode(each).decode(), "at_s": now_s}
            for each in withdrawals
        ]
        if rows:
            self._connection.execute(insert(CUTS), rows)

    def forget(self, before_s: float) -> None:
        """Drop those that are older; every holder that is still there had time to hear of them."""
        self._connection.execute(delete(CUTS).where(CUTS.c.at_s < before_s))

    def repeat(self, epoch: int) -> None:
        """Have them all told as of this epoch: to holders that apply a higher one than theirs they are news."""
        self._connection.execute(update(CUTS).where(CUTS.c.epoch < epoch).values(epoch=epoch))

    def newest(self, num_max: int) -> list[Cut]:
        """Return the newest so many, oldest first."""
        rows = self._connection.execute(select(CUTS).order_by(CUTS.c.id.desc()).limit(num_max)).all()
        return [Cut(row.epoch, msgspec.json.decode(row.withdrawal_json, type=Withdrawal)) for row in reversed(rows)]
