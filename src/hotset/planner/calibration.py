"""What an engine and its disk take, as measured: the numbers of a simulated worker, without time of our own code."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds of one kind of worker."""

    #: Of one decode step with 1, 2, … sequences in it; more take the last one's in proportion.
    step_s: tuple[float, ...] = (0.020, 0.022, 0.024, 0.027, 0.030, 0.033, 0.036, 0.040)
    #: Of each prompt token, in the step that reads it.
    prompt_token_s: float = 0.0001
    #: That a load keeps the engine from stepping, on top of the load's own preparation.
    load_stall_s: float = 0.010
    #: Reading and checking a warm version's files, and fetching a cold one's, a megabyte.
    warm_mb_s: float = 0.002
    cold_mb_s: float = 0.010
    #: From the engine's start until it serves.
    engine_start_s: float = 0.5

    def step(self, num_sequences: int, prompt_tokens: int) -> float:
        """Return what one step takes.

        Args:
            num_sequences: At least 1.
            prompt_tokens: Of the prompts that are read in this step.
        """
        known = self.step_s[min(num_sequences, len(self.step_s)) - 1]
        return known * max(1.0, num_sequences / len(self.step_s)) + self.prompt_token_s * prompt_tokens
