"""Random loads, unloads, starts and aborts on a running engine, seeded."""

import random

from hotset.core.errors import LoadFailedError
from hotset.core.messages import AdapterLoad
from tests.acceptance.engine_runs import Answer, Question, Runner

ACTS = ("load", "load", "unload", "unload", "abort", "start", "start", "start")
RUNNING_MAX = 12


class Churn:
    """One random run: more versions than slots, so slots change hands under running requests."""

    def __init__(self, runner: Runner, versions: list[tuple[str, AdapterLoad]], rng: random.Random) -> None:
        self.runner = runner
        self.versions = versions
        self.rng = rng
        self.answers: list[Answer] = []
        #: How often each act was carried out or rightly refused.
        self.counts: dict[str, int] = {}

    def run(self, num_steps: int) -> list[Answer]:
        """Take `num_steps` acts, then let what still runs end; return every answer that was not aborted."""
        for _ in range(num_steps):
            act = self.rng.choice(ACTS)
            adapter, load = self.rng.choice(self.versions)
            getattr(self, f"_{act}")(adapter, load)
            for _ in range(self.rng.randrange(4)):
                self.runner.step()
        self.runner.finish()
        return [answer for answer in self.answers if answer.is_done]

    def _load(self, adapter: str, load: AdapterLoad) -> None:
        loaded = self.runner.engine.inventory().loaded
        is_full = load.engine_name not in loaded and len(loaded) >= self.runner.engine.facts.num_slots
        self._expect("load", is_full, lambda: self.runner.load(load))

    def _unload(self, adapter: str, load: AdapterLoad) -> None:
        is_used = any(answer.name == load.engine_name for answer in self.runner.running.values())
        self._expect("unload", is_used, lambda: self.runner.engine.unload(load.engine_name))

    def _abort(self, adapter: str, load: AdapterLoad) -> None:
        if self.runner.running:
            self.runner.abort(self.rng.choice(sorted(self.runner.running)))
            self._count("abort")

    def _start(self, adapter: str, load: AdapterLoad) -> None:
        if len(self.runner.running) >= RUNNING_MAX:
            return
        prompt = self.rng.randrange(len(self.runner.prompts))
        if self.rng.random() < 0.2:
            self.answers.append(self.runner.start(Question(None, prompt), None))
            self._count("start")
        elif load.engine_name in self.runner.engine.inventory().loaded:
            self.answers.append(self.runner.start(Question(adapter, prompt), load.engine_name))
            self._count("start")

    def _expect(self, act: str, is_refused: bool, effect) -> None:
        try:
            effect()
        except LoadFailedError:
            if not is_refused:
                raise
            self._count(f"{act} refused")
        else:
            if is_refused:
                raise AssertionError(f"{act} should have been refused")
            self._count(act)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
