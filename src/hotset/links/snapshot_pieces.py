"""A snapshot in pieces: a version's record crosses a link once, however many snapshots name it."""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from hotset.core.ids import EngineName
from hotset.core.snapshot import RoutingSnapshot
from hotset.core.versions import Approval, VersionRecord
from hotset.links.holder_messages import Current, Records

#: Tensors and files that the records of one piece may name together; each is some hundred bytes.
_PIECE_SIZE_MAX = 4096


class SnapshotCutter:
    """The sending end: knows which records the other end has."""

    def __init__(self) -> None:
        #: A name stands for the same bytes for ever, but they may be approved again.
        self._sent: dict[EngineName, Approval | None] = {}

    def pieces(self, snapshot: RoutingSnapshot) -> Iterator[Records | Current]:
        """Yield what the other end lacks of this snapshot, in order."""
        piece: dict[EngineName, VersionRecord] = {}
        size = 0
        for name, record in snapshot.versions.items():
            if name in self._sent and self._sent[name] == record.approval:
                continue
            piece[name] = record
            self._sent[name] = record.approval
            size += len(record.manifest.modules) + len(record.manifest.files) + 1
            if size >= _PIECE_SIZE_MAX:
                yield Records(piece)
                piece, size = {}, 0
        if piece:
            yield Records(piece)
        self._sent = {name: self._sent[name] for name in snapshot.versions}
        yield Current(replace(snapshot, versions={}), tuple(snapshot.versions))


class SnapshotJoiner:
    """The receiving end: keeps the records of the last snapshot for the next one."""

    def __init__(self) -> None:
        self._records: dict[EngineName, VersionRecord] = {}

    def add(self, records: Records) -> None:
        """Take records in."""
        self._records.update(records.records)

    def join(self, current: Current) -> RoutingSnapshot:
        """Return the snapshot whole.

        Raises:
            msgspec.ValidationError: a record that it names did not come.
        """
        missing = next((name for name in current.versions if name not in self._records), None)
        if missing is not None:
            raise msgspec.ValidationError(f"a snapshot names {missing}, whose record did not come")
        self._records = {name: self._records[name] for name in current.versions}
        return replace(current.snapshot, versions=dict(self._records))
