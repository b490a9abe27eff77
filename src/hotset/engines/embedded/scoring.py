"""What a model gives each token of a text that is known already, as `prove` and first loads compare it."""

import torch

from hotset.engines.embedded.batch import Batch
from hotset.engines.embedded.kv_cache import KvCache
from hotset.engines.embedded.model import Model

#: Rows whose logits are held at once.
_ROWS_MAX = 256


def token_scores(model: Model, cache: KvCache, batch: Batch, token_ids: list[int]) -> list[float]:
    """Return the log-probability of each token after the first.

    Args:
        model: The base.
        cache: Its keys and values; the text takes none of its blocks.
        batch: The whole text as one batch, over the version that is scored.
        token_ids: The text; at least two.
    """
    hidden = model.forward(batch, cache)
    scores: list[float] = []
    for start in range(0, len(token_ids) - 1, _ROWS_MAX):
        stop = min(start + _ROWS_MAX, len(token_ids) - 1)
        logprobs = torch.log_softmax(model.logits(hidden[start:stop]), dim=-1)
        targets = torch.tensor(token_ids[start + 1 : stop + 1])
        scores += logprobs.gather(1, targets[:, None])[:, 0].tolist()
    return scores
