"""What prove measured is judged by its noise; a fingerprint tells its version from the base and from others."""

import math

import msgspec
import pytest

from hotset.core.errors import ProofFailedError
from hotset.core.ids import Digest
from hotset.core.messages import EngineFacts
from hotset.registry.fingerprint import (
    NOISE_FLOOR,
    Fingerprint,
    ProbeScores,
    judge,
    resembles,
    rms_distance,
)

FACTS = EngineFacts(
    engine="embedded 0.1.0",
    base=Digest("sha256:" + "b" * 64),
    dtype="float32",
    hardware_class="cpu",
    num_slots=4,
    rank_max=16,
    model_len_max=512,
    num_sequences_max=16,
)
BASE = (-1.0, -2.0, -3.0, -4.0)
VERSION = (-2.0, -1.0, -4.0, -3.0)


def probe(text: str, base: tuple[float, ...], version: tuple[float, ...], noise: float = 0.0) -> ProbeScores:
    def runs(vector: tuple[float, ...]) -> tuple[tuple[float, ...], ...]:
        return (vector, tuple(value - noise for value in vector))

    return ProbeScores(text=text, base=runs(base), version=runs(version))


def test_the_probe_with_the_largest_effect_is_kept() -> None:
    near = tuple(value - 0.1 for value in BASE)

    fingerprint = judge([probe("near", BASE, near), probe("far", BASE, VERSION)], FACTS)

    assert fingerprint.text == "far"
    assert fingerprint.distance == pytest.approx(1.0)
    assert fingerprint.noise == NOISE_FLOOR
    assert fingerprint.is_provable
    assert (fingerprint.engine, fingerprint.dtype, fingerprint.hardware_class) == ("embedded 0.1.0", "float32", "cpu")
    assert msgspec.json.decode(msgspec.json.encode(fingerprint), type=Fingerprint) == fingerprint


def test_vectors_are_means_of_their_runs() -> None:
    fingerprint = judge([probe("x", BASE, VERSION, noise=0.02)], FACTS)

    assert fingerprint.base == pytest.approx([value - 0.01 for value in BASE])
    assert fingerprint.version == pytest.approx([value - 0.01 for value in VERSION])
    assert fingerprint.noise == pytest.approx(0.02)


@pytest.mark.parametrize(("effect", "is_provable"), [(0.0, False), (0.02, False), (0.04, True)])
def test_an_effect_under_three_noises_is_not_provable(effect: float, is_provable: bool) -> None:
    version = tuple(value - effect for value in BASE)

    assert judge([probe("x", BASE, version, noise=0.01)], FACTS).is_provable is is_provable


def test_no_effect_is_not_provable_even_without_noise() -> None:
    assert not judge([probe("x", BASE, BASE)], FACTS).is_provable


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5])
@pytest.mark.parametrize("who", ["base", "version"])
def test_numbers_that_are_no_log_probabilities_fail(value: float, who: str) -> None:
    spoilt = (value, *BASE[1:])
    scores = probe("x", spoilt, VERSION) if who == "base" else probe("x", BASE, spoilt)

    with pytest.raises(ProofFailedError, match=f"The {who} gives"):
        judge([probe("good", BASE, VERSION), scores], FACTS)


def test_an_unstable_version_fails() -> None:
    with pytest.raises(ProofFailedError, match="unstable"):
        judge([ProbeScores(text="x", base=(BASE, BASE), version=(VERSION, BASE))], FACTS)


@pytest.mark.parametrize("runs", [((), ()), (BASE, BASE[1:])])
def test_runs_of_differing_lengths_fail(runs: tuple[tuple[float, ...], ...]) -> None:
    with pytest.raises(ProofFailedError, match="differing numbers"):
        judge([ProbeScores(text="x", base=(BASE, BASE), version=runs)], FACTS)


def test_the_version_resembles_itself_and_nothing_else_does() -> None:
    fingerprint = judge([probe("x", BASE, VERSION, noise=0.01)], FACTS)

    assert resembles(fingerprint, VERSION)
    assert resembles(fingerprint, [value + 0.2 for value in VERSION])
    assert not resembles(fingerprint, BASE)
    assert not resembles(fingerprint, [-9.0] * 4), "another version, nearer to neither"
    assert not resembles(fingerprint, VERSION[1:])
    assert not resembles(fingerprint, (math.nan, *VERSION[1:]))


def test_an_unprovable_version_is_recognised_by_its_noise() -> None:
    fingerprint = judge([probe("x", BASE, BASE, noise=0.01)], FACTS)

    assert resembles(fingerprint, BASE)
    assert not resembles(fingerprint, VERSION)


def test_distance() -> None:
    assert rms_distance((), ()) == 0
    assert rms_distance((0, 0, 0, 0), (2, 0, 0, 0)) == 1.0
