"""One choice of a request: its sequence, how it samples, and its text so far."""

from dataclasses import dataclass

from hotset.core.ids import RequestId
from hotset.core.messages import Delta, FinishReason, Sampling, TokenLogprob
from hotset.engines.embedded.detokeniser import TextStream, TokenTable
from hotset.engines.embedded.sampler import RowLogprobs, Sampled, SamplingState
from hotset.engines.embedded.scheduler import Sequence
from hotset.engines.embedded.stop_strings import StopFilter


@dataclass(slots=True)
class ActiveRequest:
    """A request that has not ended."""

    request_id: RequestId
    prompt_tokens: int
    completion_tokens: int = 0


class Choice:
    """Turns sampled tokens into deltas and says when the choice ends."""

    def __init__(
        self,
        request: ActiveRequest,
        sequence: Sequence,
        state: SamplingState,
        *,
        tokens_max: int,
        table: TokenTable,
        end_ids: frozenset[int],
    ) -> None:
        self.request = request
        self.sequence = sequence
        self.state = state
        self._len_max = sequence.prompt_len + tokens_max
        self._table = table
        self._end_ids = frozenset[int]() if state.sampling.ignore_eos else end_ids
        self._text = TextStream(table)
        self._stops = StopFilter(state.sampling.stop)

    @property
    def sampling(self) -> Sampling:
        """What the request asked for."""
        return self.state.sampling

    def accept(self, token: int, sampled: Sampled) -> Delta:
        """Append a sampled token; the delta has a finish reason where it was the last one."""
        self.sequence.tokens.append(token)
        self.state.note(token)
        self.request.completion_tokens += 1
        text, reason = self._show(token)
        logprobs = None if sampled.logprobs is None else (self._logprob(token, sampled.logprobs),)
        return Delta(self.request.request_id, self.sequence.index, text, 1, reason, logprobs)

    def _show(self, token: int) -> tuple[str, FinishReason | None]:
        if token in self._end_ids:
            return self._stops.flush(), "stop"
        text, is_stopped = self._stops.push(self._text.push(token))
        if is_stopped:
            return text, "stop"
        if len(self.sequence.tokens) >= self._len_max:
            return text + self._stops.flush(), "length"
        return text, None

    def _logprob(self, token: int, row: RowLogprobs) -> TokenLogprob:
        top = tuple(
            self._token_logprob(token_id, value) for token_id, value in zip(row.top_ids, row.top_logprobs, strict=True)
        )
        return self._token_logprob(token, row.logprob, top)

    def _token_logprob(self, token: int, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        content = self._table.content(token)
        return TokenLogprob(content.decode(errors="replace"), content, logprob, top)
