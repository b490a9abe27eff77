"""The update that the embedded engine adds for a version, read off its own product with unit vectors."""

import sys
from pathlib import Path

import numpy as np
import torch

from hotset.core.base import BaseShape
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad
from hotset.engines.embedded.adapter_files import stage_adapter
from hotset.engines.embedded.lora_pool import SITE_LINEARS, LoraPool
from hotset.engines.embedded.lora_product import Block, LoraTerms, add_lora
from hotset.registry.verify import VerifiedVersion

NAME = EngineName("hs-" + "0" * 32)
#: float32 sums, compared with float64 ones.
SERVED_RTOL = 2e-6


def served_deltas(
    verified: VerifiedVersion, folder: Path, shape: BaseShape, rank_max: int
) -> list[dict[str, np.ndarray]]:
    """Return the served update [d_out, d_in] of every linear by module path: in a product, and in the loop."""
    load = AdapterLoad(
        engine_name=NAME,
        folder=str(folder),
        files={entry.name: entry.digest for entry in verified.manifest.files},
        modules=verified.modules,
    )
    pool = LoraPool(shape, num_slots=2, rank_max=rank_max, dtype=torch.float32)
    with torch.inference_mode():
        pool.place(stage_adapter(load, shape, rank_max, torch.float32))
        return [_deltas(pool, LoraTerms(pool, product_min=product_min), shape) for product_min in (0, sys.maxsize)]


def _deltas(pool: LoraPool, terms: LoraTerms, shape: BaseShape) -> dict[str, np.ndarray]:
    deltas: dict[str, np.ndarray] = {}
    for site, linears in enumerate(SITE_LINEARS):
        d_in = shape.linear_shape(linears[0])[1]
        made = terms.of([Block(NAME, 0, d_in)])
        for layer in range(shape.num_layers):
            answer = torch.zeros((d_in, pool.b[site].shape[-1]))
            add_lora(made, layer, site, torch.eye(d_in), answer)
            for linear in linears:
                served = answer[:, pool.columns[site][linear]].t()
                deltas[f"model.layers.{layer}.{linear}"] = served.double().numpy()
    return deltas
