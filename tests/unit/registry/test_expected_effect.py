"""The comparison of effects finds a wrong scaling, a module too many and a module too few."""

import numpy as np

from hotset.registry.artifact import Artifact
from hotset.registry.verify import VerifyPolicy, verify
from tests.acceptance.expected_effect import compare_effect, compare_modules, probe_values, verified_deltas
from tests.support.adapters import tiny_base_version
from tests.support.bad_adapters import adapter_files


def test_differences_are_found() -> None:
    artifact = Artifact.of(adapter_files())
    verified = verify(artifact, tiny_base_version(), VerifyPolicy(rank_max=16))
    deltas = verified_deltas(verified, artifact)
    expect = {
        "modules": {
            spec.module: {
                "rank": spec.rank,
                "alpha": spec.alpha,
                "scaling": spec.scaling,
                "fro": float(np.linalg.norm(deltas[spec.module])),
                "probe": list(probe_values(deltas[spec.module])),
            }
            for spec in verified.modules
        }
    }
    first, second, *_ = deltas

    assert compare_effect(expect, deltas) == []
    assert compare_modules(expect, verified) == []
    assert len(compare_effect(expect, {**deltas, first: deltas[first] * 1.0001})) == 2, "norm and probe"
    assert compare_effect(expect, {**deltas, first: deltas[first][::-1]}), "the norm alone does not see this"
    assert compare_effect(expect, {**deltas, "lm_head": np.ones((4, 64))}) == [
        "lm_head is changed, and should equal the base"
    ]
    assert compare_effect(expect, {name: deltas[name] for name in deltas if name != second}) == [
        f"{second} is not changed"
    ]
    expect["modules"][first]["scaling"] = 1.0
    assert len(compare_modules(expect, verified)) == 1
