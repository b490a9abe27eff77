"""From a request to the sequences that answer it: its prompts as tokens, each answer's length, a choice for each."""

from dataclasses import dataclass

from hotset.core.errors import ContextLengthExceededError, InvalidRequestError
from hotset.core.messages import Generate
from hotset.engines.embedded.chat import PromptEncoder
from hotset.engines.embedded.choice import ActiveRequest, Choice
from hotset.engines.embedded.sampler import SamplingState
from hotset.engines.embedded.scheduler import Sequence


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a request."""

    token_ids: list[int]
    #: Of its answer.
    tokens_max: int


class Intake:
    """Takes requests in for one engine; whether there is room for them is the engine's to say."""

    def __init__(self, encoder: PromptEncoder, *, model_len_max: int) -> None:
        self._encoder = encoder
        self._model_len_max = model_len_max

    def read(self, request: Generate) -> list[Prompt]:
        """Return the request's prompts.

        Raises:
            InvalidRequestError: one has no tokens, or can't be rendered.
            ContextLengthExceededError: one and its answer do not fit the model's context.
        """
        max_tokens = request.sampling.max_tokens
        return [Prompt(prompt, self._tokens_max(len(prompt), max_tokens)) for prompt in self._encoded(request)]

    def open(self, request: Generate, prompts: list[Prompt], seed: int) -> list[Choice]:
        """Return the request's choices, prompt by prompt; they share one `ActiveRequest`.

        Args:
            request: What is asked.
            prompts: As `read` returned them; at least one.
            seed: Of a request that brings none.
        """
        active = ActiveRequest(request.request_id, sum(len(prompt.token_ids) for prompt in prompts))
        each = [prompt for prompt in prompts for _ in range(request.n)]
        return [self._choice(request, active, prompt, index, seed) for index, prompt in enumerate(each)]

    def _choice(self, request: Generate, active: ActiveRequest, prompt: Prompt, index: int, seed: int) -> Choice:
        token_ids = prompt.token_ids
        return Choice(
            active,
            Sequence(request.request_id, index, request.engine_name, list(token_ids), prompt_len=len(token_ids)),
            SamplingState.start(request.sampling, token_ids, index, seed),
            tokens_max=prompt.tokens_max,
            table=self._encoder.table,
            end_ids=self._encoder.end_ids,
        )

    def _encoded(self, request: Generate) -> list[list[int]]:
        if request.messages is not None:
            return [self._encoder.encode_chat(request.messages)]
        return [
            self._encoder.encode_text(prompt, param="prompt") if isinstance(prompt, str) else list(prompt)
            for prompt in request.prompts or ()
        ]

    def _tokens_max(self, prompt_len: int, max_tokens: int | None) -> int:
        if prompt_len == 0:
            raise InvalidRequestError("the prompt has no tokens.", param="prompt")
        room = self._model_len_max - prompt_len
        if room < (max_tokens or 1):
            raise ContextLengthExceededError(
                f"the prompt's {prompt_len} tokens and the answer's {max_tokens or 1} do not fit the model's "
                f"context of {self._model_len_max} tokens."
            )
        return max_tokens or room
