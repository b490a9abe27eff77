"""What a greedy answer is, and when two of them are equal: token by token, up to a tie of the two best."""

from dataclasses import dataclass

#: A divergence is no difference where the reference's two best logits lie at most this far apart.
TIE_LOGITS_MAX = 1e-4
#: Stands for the end-of-sequence token in a list of tokens.
END = b"<end>"


@dataclass(frozen=True)
class ReferenceAnswer:
    """Greedy tokens as bytes, `END` last where the model ended, and each token's lead over the runner-up."""

    tokens: tuple[bytes, ...]
    #: Logit of the best token less that of the second best, before each token.
    leads: tuple[float, ...]
    prompt_tokens: int


@dataclass(frozen=True)
class Verdict:
    """How an answer compares with the reference: equal, equal up to a tie, or different at `position`."""

    is_equal: bool
    is_tie: bool = False
    position: int = 0
    lead: float = 0.0


def compare(reference: ReferenceAnswer, tokens: tuple[bytes, ...]) -> Verdict:
    """Compare tokens up to the first divergence, which is forgiven only where the reference had a tie."""
    if tokens == reference.tokens:
        return Verdict(is_equal=True)
    pairs = zip(tokens, reference.tokens, strict=False)
    position = next((index for index, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    if position is None:  # one is the other's beginning: too short or too long is never a tie
        return Verdict(is_equal=False, position=min(len(tokens), len(reference.tokens)))
    lead = reference.leads[position]
    return Verdict(is_equal=lead <= TIE_LOGITS_MAX, is_tie=lead <= TIE_LOGITS_MAX, position=position, lead=lead)


def tokens_of(contents: list[bytes], end_token: bytes, *, has_ended: bool) -> tuple[bytes, ...]:
    """Return an answer's tokens; where it ended by itself `END` is the last, whether that token came along or not."""
    if not has_ended:
        return tuple(contents)
    return (*(contents[:-1] if contents[-1:] == [end_token] else contents), END)
