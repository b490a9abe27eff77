"""Gives every case of a collection of adapters its verdict and compares it with the expected one.

Usage: ``python tests/acceptance/check_cases.py CASES_DIR [--dtype float32]``; CASES_DIR holds manifest.json and
adapters.tar.gz. Of an accepted adapter both the effect that was verified and the one that the embedded engine serves,
for prompts and for decoding rows, must be the expected one. Exit status 0 if every verdict and effect is right.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hotset.core.errors import VersionRefusedError  # noqa: E402
from hotset.registry.verify import VerifyPolicy, verify  # noqa: E402
from hotset.storage.folder import open_artifact  # noqa: E402
from tests.acceptance.expected_effect import (  # noqa: E402
    case_base,
    compare_effect,
    compare_modules,
    unpack,
    verified_deltas,
)
from tests.acceptance.served_effect import SERVED_RTOL, served_deltas  # noqa: E402


def judge(case: dict[str, Any], folder: Path, base: Any, policy: VerifyPolicy) -> tuple[str, list[str]]:
    """Return the verdict in words and what is wrong with it."""
    try:
        with open_artifact(folder) as artifact:
            verified = verify(artifact, base, policy)
            faults = compare_modules(case["expect"], verified) if "expect" in case else ["accepted"]
            if "expect" in case:
                faults += compare_effect(case["expect"], verified_deltas(verified, artifact))
                for served in served_deltas(verified, folder, base.shape, policy.rank_max):
                    faults += compare_effect(case["expect"], served, rtol=SERVED_RTOL)
    except VersionRefusedError as error:
        return f"{error.reason}: {error.message}", ["refused"] if case["verdict"] == "accept" else []
    if case["warn"] and not verified.warnings:
        faults.append("no warning")
    files = {entry.name: entry.digest.removeprefix("sha256:") for entry in verified.manifest.files}
    faults += [f"digest of {name}" for name, digest in files.items() if case["files"].get(name) != digest]
    codes = ", ".join(code for code, _ in verified.warnings)
    return "accepted" + (f" ({codes})" if codes else ""), faults


def main() -> int:
    """Run all cases; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--dtype", default="float32")
    arguments = parser.parse_args()
    manifest = json.loads((arguments.cases / "manifest.json").read_text())
    base = case_base(manifest["base"])
    policy = VerifyPolicy(rank_max=manifest["base"]["assumed_max_lora_rank"], dtype=arguments.dtype)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        unpack(arguments.cases / "adapters.tar.gz", Path(scratch))
        for case in manifest["cases"]:
            start = time.perf_counter()
            verdict, faults = judge(case, Path(scratch) / case["folder"], base, policy)
            wrong += bool(faults)
            mark = "WRONG" if faults else "ok"
            took = time.perf_counter() - start
            print(f"{mark:5} {case['case']:34} {case['verdict']:16} {took:5.2f}s {verdict}")
            for fault in faults:
                print(f"      {fault}")
    print(f"{len(manifest['cases'])} cases, {wrong} wrong")
    print(f"effects compared: as verified to 1e-9, as served in float32 to {SERVED_RTOL}, of the update's norm")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
