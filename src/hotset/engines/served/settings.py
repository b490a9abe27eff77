"""Which HTTP engine is to be served by, and how it is started."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotset.core.ids import Digest
from hotset.engines.served.dialects import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSettings:
    """One engine in a process of its own that listens on a Unix socket in a private folder."""

    dialect: Dialect
    #: Socket → the program and its arguments; also what an operator is told to start where an engine is refused.
    command_of: Callable[[Path], Sequence[str]]
    #: The operator's own in place of it.
    own_command_of: Callable[[Path], Sequence[str]] | None = None
    #: Environment of the process; None is this process's own.
    environment: Mapping[str, str] | None = None
    #: Of the base version that it is to serve, and what the engine calls it.
    base: Digest
    base_name: str = "base"
    #: Usable slots that it is to have.
    num_slots: int
    start_timeout_s: float = 600.0
