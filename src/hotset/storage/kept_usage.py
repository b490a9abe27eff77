"""What tenants used and control did not yet count, on a gateway's or worker's own disk, so that no restart loses it."""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hotset.core.usage import UsageBatch
from hotset.storage.durable import write_durably

_log = logging.getLogger(__name__)


class KeptUsage:
    """One file with batches. Calls block; run them off the event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep(self, batches: Sequence[UsageBatch]) -> None:
        """Put these batches in the place of the last ones, whole or not at all.

        Raises:
            OSError: the disk is full or broken.
        """
        write_durably(self._path, msgspec.msgpack.encode(batches))

    def read(self) -> list[UsageBatch]:
        """Return the batches that were kept; none where the file is not there, damaged or of another release."""
        try:
            return msgspec.msgpack.decode(self._path.read_bytes(), type=list[UsageBatch])
        except FileNotFoundError:
            return []
        except msgspec.MsgspecError as error:
            _log.error("%s can't be read; what was used is lost: %s", self._path, error)
            return []
