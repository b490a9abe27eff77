"""Judges what ``prove`` measured: is the version numerically sound, and by what is its effect recognised later?

Every probe text was scored several times under the base and under the version, alone and in a batch. The spread of
equal runs is the noise of that engine, dtype and hardware class; the distance between base and version is the effect.
Distances are root mean squares over a text's tokens, in nats.

Invariant: every number in a `Fingerprint` is finite, and its noise is at least `NOISE_FLOOR`.
"""

import math
from collections.abc import Sequence

import msgspec

from hotset.core.errors import ProofFailedError
from hotset.core.messages import EngineFacts

#: Two runs of equal work never count as quieter than float32 rounding lets them be.
NOISE_FLOOR = 1e-6
#: A version whose equal runs differ by more than this is unstable; half-precision engines stay well below it.
NOISE_MAX = 0.25
#: An effect below this many times the noise can't be told from none.
PROVABLE_NOISES = 3.0
#: A log-probability may exceed 0 by rounding alone.
_LOGPROB_MAX = 1e-3

Vector = tuple[float, ...]


class ProbeScores(msgspec.Struct, frozen=True, kw_only=True):
    """One text's log-probabilities, a vector a run; the same number of tokens in every run."""

    text: str
    base: tuple[Vector, ...]
    version: tuple[Vector, ...]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """What recognises a version's effect on one class of engine.

    Law: ``msgspec.json.decode(msgspec.json.encode(f), type=Fingerprint) == f``.
    """

    #: The probe on which base and version differ most.
    text: str
    #: Log-probability of each token after the first, averaged over the runs.
    base: Vector
    version: Vector
    #: From base to version, in nats.
    distance: float
    #: Between equal runs, the largest over all probes, in nats.
    noise: float
    engine: str
    dtype: str
    hardware_class: str

    @property
    def is_provable(self) -> bool:
        """Whether the effect can be told from noise; if not, a reviewer accepts the version by name."""
        return self.distance >= PROVABLE_NOISES * self.noise


def judge(scores: Sequence[ProbeScores], facts: EngineFacts) -> Fingerprint:
    """Return the fingerprint of a version whose numbers are finite and stable.

    Args:
        scores: At least one probe, each with at least two runs under the base and two under the version.
        facts: Of the engine that measured.

    Raises:
        ProofFailedError: a number is not finite or no log-probability, or equal runs differ too much.
    """
    assert scores, "no probe was scored"
    for probe in scores:
        _check_numbers(probe)
    noise = max(NOISE_FLOOR, *(_spread(runs) for probe in scores for runs in (probe.base, probe.version)))
    for probe in scores:
        spread = _spread(probe.version)
        if spread > NOISE_MAX:
            message = (
                f"The version is unstable: equal runs of {probe.text[:40]!r} differ by {spread:.3g} nats, "
                f"more than {NOISE_MAX}."
            )
            raise ProofFailedError(message)
    probe = max(scores, key=lambda probe: rms_distance(_mean(probe.base), _mean(probe.version)))
    base, version = _mean(probe.base), _mean(probe.version)
    return Fingerprint(
        text=probe.text,
        base=base,
        version=version,
        distance=rms_distance(base, version),
        noise=noise,
        engine=facts.engine,
        dtype=facts.dtype,
        hardware_class=facts.hardware_class,
    )


def resembles(fingerprint: Fingerprint, vector: Sequence[float]) -> bool:
    """Return whether scores of the fingerprint's text come from its version.

    They must lie in the version's half of the way to the base: further away is the base, or something else. Where the
    effect is not provable, they must lie within the noise of the version.

    Args:
        fingerprint: Of the same engine, dtype and hardware class.
        vector: Log-probabilities of `fingerprint.text`.
    """
    if len(vector) != len(fingerprint.version) or not all(math.isfinite(value) for value in vector):
        return False
    to_version = rms_distance(vector, fingerprint.version)
    if not fingerprint.is_provable:
        return to_version <= PROVABLE_NOISES * fingerprint.noise
    return to_version <= fingerprint.distance / 2 and to_version < rms_distance(vector, fingerprint.base)


def rms_distance(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the root mean square of the differences of two vectors of equal length; 0 for empty ones."""
    total = math.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True))
    return math.sqrt(total / max(len(left), 1))


def _check_numbers(probe: ProbeScores) -> None:
    assert len(probe.base) >= 2, "the base was scored fewer than two times"
    assert len(probe.version) >= 2, "the version was scored fewer than two times"
    runs = (*probe.base, *probe.version)
    for run in runs:
        if not run or len(run) != len(runs[0]):
            raise ProofFailedError(f"The engine scored {probe.text[:40]!r} with differing numbers of tokens.")
        worst = next((value for value in run if not (math.isfinite(value) and value <= _LOGPROB_MAX)), None)
        if worst is not None:
            who = "base" if run in probe.base else "version"
            message = f"The {who} gives {worst} as a log-probability in {probe.text[:40]!r}; numbers overflow."
            raise ProofFailedError(message)


def _spread(runs: tuple[Vector, ...]) -> float:
    return max(rms_distance(runs[0], run) for run in runs)


def _mean(runs: tuple[Vector, ...]) -> Vector:
    return tuple(math.fsum(values) / len(runs) for values in zip(*runs, strict=True))
