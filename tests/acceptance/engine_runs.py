"""Drives the embedded engine without a server: loads, batches, random churn, and the tokens that come out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hotset.core.base import BaseVersion
from hotset.core.ids import EngineName, RequestId
from hotset.core.messages import (
    AdapterLoad,
    Delta,
    EngineEvent,
    Failed,
    Finished,
    Generate,
    Message,
    Sampling,
    TokenLogprob,
)
from hotset.engines.step_engine import StepEngine
from hotset.registry.verify import VerifyPolicy, verify
from hotset.storage.folder import open_artifact
from tests.acceptance.greedy import tokens_of

STEPS_MAX = 20_000
RANK_MAX = 64


@dataclass(frozen=True)
class Question:
    """One request of a run: the adapter's folder name (None is the base) and the number of its prompt."""

    adapter: str | None
    prompt: int


@dataclass
class Answer:
    """The tokens of one request so far."""

    question: Question
    #: What the engine calls the adapter; None is the base.
    name: EngineName | None = None
    tokens: list[bytes] = field(default_factory=list)
    #: Of each token over the runner-up, where those were asked for; infinite where they were not.
    leads: list[float] = field(default_factory=list)
    text: str = ""
    is_done: bool = False
    failure: str | None = None


def prepare_load(folder: Path, base: BaseVersion, salt: str) -> AdapterLoad:
    """Verify an adapter as `push` does and return what an engine needs to load it.

    Args:
        folder: The adapter's folder.
        base: The base it is proved against.
        salt: Makes the engine name differ, so that the same bytes can be loaded twice.

    Raises:
        VersionRefusedError: the adapter is not admitted.
    """
    with open_artifact(folder) as artifact:
        verified = verify(artifact, base, VerifyPolicy(rank_max=RANK_MAX))
    name = EngineName("hs-" + (salt + verified.digest.removeprefix("sha256:"))[:32])
    modules = verified.manifest.modules
    used = {module.file for module in modules}
    return AdapterLoad(
        engine_name=name,
        folder=str(folder.resolve()),
        files={entry.name: entry.digest for entry in verified.manifest.files if entry.name in used},
        modules=modules,
    )


class Runner:
    """One engine and the requests in it."""

    def __init__(
        self, engine: StepEngine, prompts: Sequence[str], num_tokens: int, end_token: bytes, *, num_top: int = 1
    ) -> None:
        self.engine = engine
        #: Alternatives that are asked for with each token: 2 tell how far the best one leads.
        self.num_top = num_top
        self.prompts = prompts
        self.num_tokens = num_tokens
        #: The text of the base's end-of-sequence token.
        self.end_token = end_token
        self.running: dict[RequestId, Answer] = {}
        self._count = 0

    def load(self, load: AdapterLoad) -> None:
        """Load a version while whatever runs goes on."""
        self.engine.place(self.engine.stage(load))

    def start(self, question: Question, name: EngineName | None) -> Answer:
        """Start one greedy request."""
        self._count += 1
        request_id = RequestId(f"equality-{self._count}")
        answer = Answer(question, name)
        self.running[request_id] = answer
        content = self.prompts[question.prompt]
        request = Generate(
            request_id=request_id,
            engine_name=name,
            cache_salt="equality",
            sampling=Sampling(temperature=0.0, max_tokens=self.num_tokens, logprobs=self.num_top),
            messages=(Message(role="user", content=content),),
        )
        self.take(self.engine.add(request))
        return answer

    def step(self) -> None:
        """Advance the engine once."""
        self.take(self.engine.step())

    def take(self, events: list[EngineEvent]) -> None:
        """Add events to the answers they belong to."""
        for event in events:
            answer = self.running.get(event.request_id)
            if answer is None:
                continue
            if isinstance(event, Delta):
                answer.text += event.text
                entries = [entry for entry in event.logprobs or () if entry.content]
                answer.tokens += [entry.content for entry in entries]
                answer.leads += [_lead(entry) for entry in entries]
                if event.finish_reason == "stop":
                    answer.tokens = list(tokens_of(answer.tokens, self.end_token, has_ended=True))
            elif isinstance(event, Finished | Failed):
                answer.is_done = True
                answer.failure = event.message if isinstance(event, Failed) else None
                del self.running[event.request_id]

    def finish(self) -> None:
        """Step until nothing runs."""
        for _ in range(STEPS_MAX):
            if not self.running:
                return
            self.step()
        raise AssertionError(f"{len(self.running)} requests still run after {STEPS_MAX} steps")

    def run_batches(self, questions: Sequence[Question], names: dict[str, EngineName], size: int) -> list[Answer]:
        """Answer all questions, `size` at once."""
        answers: list[Answer] = []
        for start in range(0, len(questions), size):
            batch = questions[start : start + size]
            answers += [
                self.start(question, names[question.adapter] if question.adapter else None) for question in batch
            ]
            self.finish()
        return answers

    def abort(self, request_id: RequestId) -> None:
        """Abort one request and forget it."""
        self.engine.abort(request_id)
        del self.running[request_id]


def _lead(entry: TokenLogprob) -> float:
    return entry.top[0].logprob - entry.top[1].logprob if len(entry.top) > 1 else math.inf
