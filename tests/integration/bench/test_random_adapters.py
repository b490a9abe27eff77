import json
from pathlib import Path

from hotset.bench.engine import highest_rank
from hotset.bench.random_adapters import MIX, RANK_MAX, write_mix
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.folder import open_artifact
from tests.support.adapters import tiny_base_shape, tiny_base_version


def test_every_adapter_of_the_mix_is_admitted_with_its_own_rank_and_targets(tmp_path: Path) -> None:
    base = tiny_base_version()
    made = write_mix(tmp_path, tiny_base_shape(), base.name, len(MIX))
    for adapter, (rank, targets) in zip(made, MIX, strict=True):
        with open_artifact(adapter.folder) as artifact:
            verified = verify(artifact, base, VerifyPolicy(rank_max=RANK_MAX, dtype="bfloat16"))
        assert {spec.rank for spec in verified.modules} == {rank}
        assert len(verified.modules) == len(targets) * base.shape.num_layers


def test_the_same_folder_comes_out_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_mix(tmp_path / name, tiny_base_shape(), "tiny", 2)
    for number in range(2):
        first, second = (tmp_path / name / f"bench-0{number}" for name in ("one", "two"))
        assert (first / "adapter_model.safetensors").read_bytes() == (second / "adapter_model.safetensors").read_bytes()
    assert json.loads((tmp_path / "one" / "bench-00" / "adapter_config.json").read_text())["r"] == 16


def test_the_highest_rank_of_a_configuration_counts_its_pattern(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"r": 8, "rank_pattern": {"q_proj": 32}}')
    assert highest_rank(tmp_path) == 32
    (tmp_path / "adapter_config.json").write_text('{"r": 8, "rank_pattern": {}}')
    assert highest_rank(tmp_path) == 8
