"""The transformers and PEFT side of the engine bench: one process, mixed batches by ``adapter_names``.

``python -m hotset.bench.engine_peft`` in an environment that has PEFT (Hotset's own ``demo`` extra does).
"""

import sys
from collections.abc import Callable

import peft
import torch
import transformers

from hotset.bench.engine_batch import Batch, BatchTime, SideReady, SideSetup, speak
from hotset.core.clock import SystemClock


def start(setup: SideSetup) -> tuple[SideReady, Callable[[Batch], BatchTime]]:
    """Load base and adapters in bfloat16 and return what answers a batch."""
    torch.set_num_threads(setup.num_threads)
    base = transformers.AutoModelForCausalLM.from_pretrained(setup.base_folder, dtype=torch.bfloat16)
    first, *others = setup.adapters
    model = peft.PeftModel.from_pretrained(base, first.folder, adapter_name=first.name)
    for adapter in others:
        model.load_adapter(adapter.folder, adapter_name=adapter.name)
    model.to(torch.bfloat16).eval()
    clock = SystemClock()

    def answer(batch: Batch) -> BatchTime:
        ids = torch.tensor(batch.prompts)  # [rows, prompt tokens], equal lengths
        begun_at = clock.monotonic_s()
        with torch.inference_mode():
            made = _generate(model, ids, batch)
        return BatchTime(
            seconds=clock.monotonic_s() - begun_at, num_tokens=int(made.shape[0] * (made.shape[1] - ids.shape[1]))
        )

    return SideReady(version=f"transformers {transformers.__version__}, PEFT {peft.__version__}"), answer


def _generate(model: peft.PeftModel, ids: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Generate as PEFT documents it: a base batch with the adapters off, one adapter active, or names a row."""
    settings = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "max_new_tokens": batch.new_tokens,
        "min_new_tokens": batch.new_tokens,
        "do_sample": False,
        "pad_token_id": 0,
    }
    names = set(batch.adapters)
    if names == {None}:
        with model.disable_adapter():
            return model.generate(**settings)
    if len(names) == 1 and batch.adapters[0] is not None:
        model.set_adapter(batch.adapters[0])
        return model.generate(**settings)
    return model.generate(**settings, adapter_names=[name or "__base__" for name in batch.adapters])


if __name__ == "__main__":
    sys.exit(speak(start))
