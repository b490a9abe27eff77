"""Bearer tokens: made here, shown once, kept only as a SHA-256."""

import hashlib
import secrets
from collections.abc import Callable

#: Returns as many random bytes as it is asked for, fit for secrets.
Entropy = Callable[[int], bytes]

API_KEY_PREFIX = "hs_"
OPERATOR_PREFIX = "hso_"

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN_BYTES = 32
#: Digits that 32 bytes need in base 62.
_TOKEN_DIGITS = 43


def system_entropy(num_bytes: int) -> bytes:
    """Return random bytes from the operating system."""
    return secrets.token_bytes(num_bytes)


def make_token(prefix: str, entropy: Entropy) -> str:
    """Return a new token: the prefix and 256 random bits in base 62, always of the same length."""
    number = int.from_bytes(entropy(_TOKEN_BYTES), "big")
    digits: list[str] = []
    for _ in range(_TOKEN_DIGITS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return prefix + "".join(digits)


def token_sha256(token: str) -> str:
    """Return the hex SHA-256 of the whole token, prefix and all: what is stored and looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def make_id(prefix: str, entropy: Entropy) -> str:
    """Return a new public id, such as ``key-3f2a…``; not a secret."""
    return f"{prefix}-{entropy(6).hex()}"
