"""What every model of a fleet answers when it is alone: one adapter in an engine of one slot, one request at a time."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotset.engines.embedded.engine import EmbeddedEngine
from hotset.engines.embedded.settings import EmbeddedSettings
from tests.acceptance.engine_runs import Answer, Question, Runner, prepare_load
from tests.acceptance.greedy import ReferenceAnswer
from tests.acceptance.truth_world import RANK_MAX, ServedBase, World

#: Base, adapter (None: the bare base), number of the prompt.
Asked = tuple[str, str | None, int]


@dataclass(frozen=True)
class SoloAnswer:
    """One answer: its tokens, and its whole text."""

    reference: ReferenceAnswer
    text: str


def solo_answers(
    world: World, prompts: Sequence[str], num_tokens: int, say: Callable[[str], None]
) -> dict[Asked, SoloAnswer]:
    """Answer every prompt with every adapter and every bare base, greedily, in float32."""
    found: dict[Asked, SoloAnswer] = {}
    for base in world.bases.values():
        engine = _engine(base)
        runner = Runner(engine, prompts, num_tokens, end_token_of(base.folder), num_top=2)
        for prompt in range(len(prompts)):
            found[base.name, None, prompt] = _solo(runner.run_batches([Question(None, prompt)], {}, 1)[0])
        for adapter in world.adapters:
            if adapter.base != base.name:
                continue
            load = prepare_load(adapter.folder, base.version, "solo")
            runner.load(load)
            for prompt in range(len(prompts)):
                question = Question(adapter.name, prompt)
                (answer,) = runner.run_batches([question], {adapter.name: load.engine_name}, 1)
                found[base.name, adapter.name, prompt] = _solo(answer)
            engine.unload(load.engine_name)
        say(f"{base.name}: every adapter answered alone")
    return found


def distinct_share(answers: Mapping[Asked, SoloAnswer]) -> tuple[int, int]:
    """Return how many answers no other model of the same base gives to the same prompt, and how many all are."""
    texts = [(base, prompt, answer.reference.tokens) for (base, _, prompt), answer in answers.items()]
    return sum(texts.count(text) == 1 for text in texts), len(texts)


def end_token_of(base: Path) -> bytes:
    """Return the text of the base's end-of-sequence token."""
    settings: dict[str, Any] = json.loads((base / "tokenizer_config.json").read_text())
    token = settings["eos_token"]
    return (token["content"] if isinstance(token, dict) else token).encode()


def _engine(base: ServedBase) -> EmbeddedEngine:
    return EmbeddedEngine(
        EmbeddedSettings(
            base_folder=str(base.folder),
            base=base.version,
            dtype="float32",
            num_slots=1,
            rank_max=RANK_MAX,
            num_sequences_max=1,
            kv_bytes_max=64 << 20,
            num_threads=1,
        )
    )


def _solo(answer: Answer) -> SoloAnswer:
    assert answer.failure is None, answer.failure
    missing = len(answer.tokens) - len(answer.leads)  # an end token that came without its own log-probability
    leads = (*answer.leads, *[float("inf")] * missing)
    return SoloAnswer(ReferenceAnswer(tuple(answer.tokens), leads, 0), answer.text)
