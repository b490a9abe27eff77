"""How well engines batch different adapters: their steps against steps of one adapter that were as large.

Steps that read prompts are left out, as what they read differs. Of the rest those with one adapter or none teach what a
step of so many sequences takes; the efficiency of those with several is what they would have taken by that, over what
they took. It is 1 where several adapters cost nothing, and is not known before both kinds were seen.
"""

from hotset.core.messages import StepFacts

#: What an observation keeps of its weight when the next one comes.
_KEPT = 0.95
_SUMS_KEPT = 0.995


class BatchEfficiency:
    """Of one process's engines; different engines are not told apart."""

    def __init__(self) -> None:
        #: Seconds of a step of one adapter, by its number of sequences.
        self._alone_s: dict[int, float] = {}
        #: Of steps of several adapters, newer ones weighing more: what they would have taken, and what they took.
        self._expected_s = 0.0
        self._taken_s = 0.0

    def add(self, step: StepFacts) -> None:
        """Take one step in."""
        if step.num_prompt_tokens or not step.num_decodes:
            return
        alone_s = self._alone_s.get(step.num_decodes)
        if step.num_adapters <= 1:
            kept = _KEPT if alone_s is not None else 0.0
            self._alone_s[step.num_decodes] = kept * (alone_s or 0.0) + (1 - kept) * step.seconds
        elif alone_s is not None:
            self._expected_s = _SUMS_KEPT * self._expected_s + alone_s
            self._taken_s = _SUMS_KEPT * self._taken_s + step.seconds

    def sums(self) -> tuple[float, float]:
        """Return what steps of several adapters would have taken, and what they took; of several processes they add."""
        return self._expected_s, self._taken_s

    def ratio(self) -> float | None:
        """Return the efficiency; None where it is not known."""
        return self._expected_s / self._taken_s if self._taken_s > 0 else None
