"""What transformers and PEFT answer, token by token: the reference that the embedded engine must equal.

Each answer is computed alone, greedily, in float32, with one unmerged adapter, one prompt at a time.
"""

from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from tests.acceptance.greedy import END, ReferenceAnswer


class Reference:
    """Loads the base once for each adapter and answers prompts with it."""

    def __init__(self, base: Path) -> None:
        disable_progress_bar()
        self.base = base
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base)
        self._bytes_of = _byte_table()

    def open(self, adapter: Path | None) -> Any:
        """Return the base with this adapter alone, unmerged; the bare base for None."""
        model = AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.float32)
        model.eval()
        return model if adapter is None else PeftModel.from_pretrained(model, str(adapter)).eval()

    def answer(self, model: Any, prompt: str, num_tokens: int) -> ReferenceAnswer:
        """Return up to `num_tokens` greedy tokens for the prompt as the only turn of a chat."""
        turns = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        inputs = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        with torch.no_grad():
            output = model.generate(
                **inputs,
                max_new_tokens=num_tokens,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
        prompt_tokens = inputs["input_ids"].shape[1]
        tokens = tuple(self.token_bytes(int(token)) for token in output.sequences[0, prompt_tokens:])
        best = [torch.topk(logits[0].float(), 2).values for logits in output.logits]
        return ReferenceAnswer(tokens, tuple(float(pair[0] - pair[1]) for pair in best), prompt_tokens)

    def token_bytes(self, token: int) -> bytes:
        """Return a token's own bytes; `END` for the end of the sequence."""
        if token == self.tokenizer.eos_token_id:
            return END
        written = self.tokenizer.convert_ids_to_tokens(token)
        if token in self.tokenizer.all_special_ids:
            return written.encode()
        return bytes(self._bytes_of[letter] for letter in written)


def _byte_table() -> dict[str, int]:
    """Return byte-level BPE's letters for bytes: printable Latin-1 as itself, the rest from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(value): value for value in printable}
    others = [value for value in range(256) if value not in printable]
    return table | {chr(0x100 + index): value for index, value in enumerate(others)}
