"""What an adapter does to a base, as numbers: the scaled update of each module, and whether it is the expected one.

Used by `check_cases.py` on the verified bytes, and by whoever checks what an engine really serves.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotset.core.base import BaseShape, BaseVersion, TokenizerFacts
from hotset.core.ids import BaseName, Digest
from hotset.registry.artifact import Artifact
from hotset.registry.safetensors_header import parse_header
from hotset.registry.verify import VerifiedVersion
from hotset.registry.weights import decode

Deltas = Mapping[str, np.ndarray]


def case_base(base: Mapping[str, Any]) -> BaseVersion:
    """Return the base version that a case collection's ``base`` entry describes; it has no tokenizer."""
    shape = BaseShape(
        family="llama",
        hidden_size=base["hidden_size"],
        intermediate_size=base["intermediate_size"],
        num_layers=base["num_hidden_layers"],
        num_heads=base["num_attention_heads"],
        num_kv_heads=base["num_key_value_heads"],
        head_dim=base["head_dim"],
        vocab_size=base["vocab_size"],
        context_len=512,
        tie_word_embeddings=base["tie_word_embeddings"],
    )
    return BaseVersion(
        name=BaseName("tiny-llama"),
        digest=Digest("sha256:" + "0" * 64),
        synonyms=(base["name"],),
        shape=shape,
        tokenizer=TokenizerFacts(),
        files={},
    )


def verified_deltas(verified: VerifiedVersion, artifact: Artifact) -> dict[str, np.ndarray]:
    """Return scaling * B @ A of each module, in float64, from the bytes that were verified."""
    headers = {file: parse_header(artifact.files[file], file) for file in {m.file for m in verified.modules}}

    def tensor(file: str, key: str) -> np.ndarray:
        entry = headers[file][key]
        values = decode(artifact.files[file][entry.start : entry.end], entry.dtype)
        return values.reshape(entry.shape).astype(np.float64)

    return {
        spec.module: spec.scaling * tensor(spec.file, spec.key_b) @ tensor(spec.file, spec.key_a)
        for spec in verified.modules
    }


def probe_values(delta: np.ndarray) -> np.ndarray:
    """Return the first three entries of delta @ x, x[i] = cos(i + 1)."""
    return (delta @ np.cos(np.arange(1, delta.shape[1] + 1)))[:3]


def compare_effect(expect: Mapping[str, Any], deltas: Deltas, *, rtol: float = 1e-9) -> list[str]:
    """Return what differs between a case's ``expect`` and the updates that are served; empty where nothing does.

    Args:
        expect: ``modules``: path to ``fro`` (Frobenius norm of the scaled update) and ``probe``.
        deltas: Scaled update [d_out, d_in] of each module by path; zero or absent where the base is unchanged.
        rtol: Relative to the update's norm; engines in narrower dtypes need more.
    """
    faults: list[str] = []
    wanted = expect["modules"]
    for module, delta in deltas.items():
        if module not in wanted and np.any(delta):
            faults.append(f"{module} is changed, and should equal the base")
    for module, figures in wanted.items():
        if module not in deltas:
            if figures["fro"] != 0:
                faults.append(f"{module} is not changed")
            continue
        delta = deltas[module]
        scale = max(figures["fro"], 1e-30)
        if not math.isclose(float(np.linalg.norm(delta)), figures["fro"], rel_tol=rtol, abs_tol=1e-12):
            faults.append(f"{module}: norm {np.linalg.norm(delta)}, expected {figures['fro']}")
        if np.abs(probe_values(delta) - np.array(figures["probe"])).max() > rtol * 100 * scale:
            faults.append(f"{module}: probe {probe_values(delta)}, expected {figures['probe']}")
    return faults


def compare_modules(expect: Mapping[str, Any], verified: VerifiedVersion) -> list[str]:
    """Return what differs between a case's rank, alpha and scaling and the verified ones."""
    faults: list[str] = []
    specs = {spec.module: spec for spec in verified.modules}
    if specs.keys() != expect["modules"].keys():
        faults.append(f"modules {sorted(specs.keys() ^ expect['modules'].keys())} are on one side alone")
    for module, spec in specs.items():
        figures = expect["modules"].get(module, {})
        got = {"rank": spec.rank, "alpha": spec.alpha, "scaling": spec.scaling}
        faults += [
            f"{module}: {name} {value}, expected {figures.get(name)}"
            for name, value in got.items()
            if not math.isclose(value, figures.get(name, math.nan), rel_tol=1e-12)
        ]
    return faults


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a collection's adapters, links and all, as somebody's upload would bring them."""
    import tarfile

    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="fully_trusted")
