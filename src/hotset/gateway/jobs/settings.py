"""The settings of jobs: every limit has a default, a least and a greatest value."""

from dataclasses import dataclass

from hotset.core.errors import ConfigError

_MIB = 1 << 20
_DAY_S = 86_400.0

#: Setting → (least, greatest). Each field of `JobSettings` is here.
BOUNDS: dict[str, tuple[float, float]] = {
    "running_max": (1, 4096),
    "yield_s_max": (0.0, _DAY_S),
    "async_after_ms": (1, 600_000),
    "per_tenant_max": (1, 1_000_000),
    "bytes_per_tenant_max": (_MIB, 1 << 40),
    "run_within_s": (1.0, 30 * _DAY_S),
    "keep_s": (1.0, 30 * _DAY_S),
    "attempts_max": (1, 1000),
    "pause_min_s": (0.0, 3600.0),
    "pause_max_s": (0.01, 3600.0),
    "lease_s": (0.3, 600.0),
    "poll_s": (0.02, 60.0),
}


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Requests that are answered later: how many are kept and for how long, and how they are run."""

    #: Jobs that this gateway runs at a time.
    running_max: int = 4
    #: Jobs don't start while interactive requests wait for an engine; after this long one at a time does all the same.
    yield_s_max: float = 60.0
    #: A request that prefers an answer later and names no budget becomes a job if its first token takes longer.
    async_after_ms: int = 500
    #: Jobs of one tenant that are kept, ended ones too.
    per_tenant_max: int = 1000
    #: Bytes of what they ask and answer.
    bytes_per_tenant_max: int = 256 * _MIB
    #: From acceptance; a job that has not ended by then is expired.
    run_within_s: float = _DAY_S
    #: From a job's end until it is forgotten with all that is in it.
    keep_s: float = _DAY_S
    #: Tries that may break off before a job fails; waiting for an adapter or an engine is none.
    attempts_max: int = 5
    #: First pause after a try that broke off; it doubles up to the longest.
    pause_min_s: float = 1.0
    #: The longest of these pauses.
    pause_max_s: float = 60.0
    #: A gateway that has not renewed its hold on a job for so long is taken for dead.
    lease_s: float = 15.0
    #: Between two looks at the database for jobs that others accepted, ended or left.
    poll_s: float = 1.0

    def __post_init__(self) -> None:
        if self.poll_s > self.lease_s / 3:
            message = f"jobs.poll_s is {self.poll_s:g}; expected at most a third of jobs.lease_s ({self.lease_s:g})."
            raise ConfigError(message, param="jobs.poll_s")
