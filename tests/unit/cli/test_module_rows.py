from typing import Any

from hotset.cli.module_rows import module_rows


def module(name: str, rank: int = 8) -> dict[str, Any]:
    return {"module": name, "rank": rank, "alpha": 16.0, "scaling": 16 / rank}


def test_modules_that_differ_in_their_layer_alone_stand_in_one_row() -> None:
    modules = [module(f"model.layers.{layer}.mlp.{part}") for layer in (0, 1, 11) for part in ("up_proj", "down_proj")]
    assert module_rows(modules) == [
        ("model.layers.*.mlp.up_proj", 3, 8, "16", "2"),
        ("model.layers.*.mlp.down_proj", 3, 8, "16", "2"),
    ]


def test_a_layer_of_another_rank_has_a_row_and_its_own_name() -> None:
    modules = [module("model.layers.0.mlp.up_proj"), module("model.layers.1.mlp.up_proj", rank=4)]
    assert [(row[0], row[2]) for row in module_rows([*modules, module("model.layers.2.mlp.up_proj")])] == [
        ("model.layers.*.mlp.up_proj", 8),
        ("model.layers.1.mlp.up_proj", 4),
    ]
