"""Which of several workers suits a subject best, by highest random weight: everybody who asks gets the same answer.

A digest of (subject, worker) is the draw, so a worker that leaves moves only the subjects that had drawn it, and one
that comes takes over only those that now draw it. A worker of twice the size wins twice as often.

Source: Thaler & Ravishankar, "Using name-based mappings to increase hit rates" (1998); the weighting by size is
Schindelhauer & Schomaker, "Weighted distributed hash tables" (2005).
"""

import hashlib
import math
from collections.abc import Mapping

from hotset.core.ids import WorkerId

_SEED = b"hotset homes 1"
_DRAW_BITS = 53


def draw(subject: str, worker: WorkerId, size: float = 1.0) -> float:
    """Return the worker's draw for the subject, above 0; the highest of several wins.

    Args:
        subject: A version's engine name, or anything else that is to be placed.
        worker: Who draws.
        size: How much more often than another it is to win, above 0.
    """
    digest = hashlib.blake2b(f"{subject}\x00{worker}".encode(), digest_size=8, key=_SEED).digest()
    # The middle of one of 2**53 equal parts of (0, 1), so that neither end is ever drawn.
    uniform = ((int.from_bytes(digest) >> (64 - _DRAW_BITS)) + 0.5) / (1 << _DRAW_BITS)
    return -size / math.log(uniform)


def rank(subject: str, sizes: Mapping[WorkerId, float]) -> list[WorkerId]:
    """Return the workers from the highest draw to the lowest; equal draws by id, whatever order they came in."""
    return sorted(sizes, key=lambda worker: (-draw(subject, worker, sizes[worker]), worker))
