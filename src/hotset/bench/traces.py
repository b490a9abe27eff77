"""Reads public request traces from compact gzip files: who asked when and for how much, never a word of text.

ServeGen's rates (arXiv 2505.09999): for each client of a pool and each window of ten minutes a mean rate and
the fitted shape of its gaps; its lengths: quantiles of input and output tokens for each client. The trace of
27 tenants (Chatbot Arena, as in the artifact of arXiv 2401.00588): one line a request.
"""

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from hotset.core.errors import ConfigError

RATES_FILE = "servegen_client_rates_10min.csv.gz"
LENGTHS_FILE = "servegen_client_lengths.csv.gz"
ARENA_FILE = "lmsys_arena_27_tenants.csv.gz"

GapFamily = Literal["G", "W"]
LengthField = Literal["input_tokens", "output_tokens"]

WINDOW_S = 600.0
#: The shares that the quantile columns of a lengths file stand for, in order.
QUANTILES = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99, 0.999, 1.0)
#: No client of the recording comes near it, for its rate or its shape.
_FITTED_MAX = 1e6

_RATES_COLUMNS = ("pool", "client", "window_start_s", "rate_rps", "iat_cv", "iat_family", "iat_p1", "iat_p2")
_QUANTILE_COLUMNS = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9", "max")
_LENGTHS_COLUMNS = ("pool", "client", "field", "windows", "mean", *_QUANTILE_COLUMNS)
_ARENA_COLUMNS = ("arrival_s", "tenant", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class RateWindow:
    """One client's traffic over one window of `WINDOW_S`."""

    pool: str
    client: str
    start_s: float
    #: Mean requests a second, above 0.
    rate: float
    #: `G` Gamma, `W` Weibull.
    gap_family: GapFamily
    #: Shape of the gaps, 1 for a Poisson stream, smaller for a more bursty one; their scale follows from the rate.
    gap_shape: float


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Quantiles of one client's lengths, in tokens, at `QUANTILES`."""

    input_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ArenaLine:
    """One request of the trace of 27 tenants."""

    at_s: float
    tenant: str
    input_tokens: int
    output_tokens: int


def read_rates(path: Path, pools: Sequence[str]) -> list[RateWindow]:
    """Return the windows of some pools, in the order of the file.

    Args:
        path: The gzip file.
        pools: Names of the pools wanted.

    Raises:
        ConfigError: the file is missing, broken or of another kind, or it lacks one of the pools.
    """
    wanted, seen, windows = frozenset(pools), set[str](), list[RateWindow]()
    for place, row in _rows(path, _RATES_COLUMNS):
        seen.add(row["pool"])
        if row["pool"] in wanted:
            windows.append(_rate_window(place, row))
    if missing := sorted(wanted - seen):
        raise ConfigError(f"{path} has no pool {', '.join(missing)}; it has {', '.join(sorted(seen)) or 'none'}.")
    return windows


def read_lengths(path: Path) -> dict[tuple[str, str], TokenLengths]:
    """Return the lengths by (pool, client); a client that lacks either field is left out.

    Raises:
        ConfigError: the file is missing, broken or of another kind.
    """
    found: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {}
    for place, row in _rows(path, _LENGTHS_COLUMNS):
        quantiles = tuple(_number(place, row, name) for name in _QUANTILE_COLUMNS)
        if row["field"] not in get_args(LengthField) or list(quantiles) != sorted(quantiles):
            raise ConfigError(f"{place}: expected a field of {get_args(LengthField)} with rising quantiles.")
        found.setdefault((row["pool"], row["client"]), {})[row["field"]] = quantiles
    return {
        client: TokenLengths(fields["input_tokens"], fields["output_tokens"])
        for client, fields in found.items()
        if len(fields) == len(get_args(LengthField))
    }


def read_arena(path: Path) -> list[ArenaLine]:
    """Return the requests of the trace of 27 tenants, in order of arrival.

    Raises:
        ConfigError: the file is missing, broken or of another kind, or holds no request.
    """
    lines = [
        ArenaLine(
            _number(place, row, "arrival_s"),
            row["tenant"],
            _whole(place, row, "input_tokens"),
            _whole(place, row, "output_tokens"),
        )
        for place, row in _rows(path, _ARENA_COLUMNS)
    ]
    if not lines:
        raise ConfigError(f"{path} holds no request.")
    return sorted(lines, key=lambda line: line.at_s)


def _rate_window(place: str, row: Mapping[str, str]) -> RateWindow:
    family = row["iat_family"]
    rate, shape = _number(place, row, "rate_rps"), _number(place, row, "iat_p1")
    if family not in ("G", "W"):
        raise ConfigError(f"{place}: iat_family is {family[:20]!r}; expected G or W.")
    if not (0 < rate <= _FITTED_MAX and 0 < shape <= _FITTED_MAX):
        raise ConfigError(f"{place}: rate_rps and iat_p1 must be above 0, up to {_FITTED_MAX:g}.")
    return RateWindow(row["pool"], row["client"], _number(place, row, "window_start_s"), rate, family, shape)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield where each row stands, as words, and the row.

    A trace is an input like any other: what is wrong with it is said with the file's name, not shown as a
    traceback of the library that tripped over it.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
            reader = csv.reader(text)
            if tuple(head := next(reader, [])) != columns:
                raise ConfigError(f"{path}: the columns are {','.join(head)[:200]!r}; expected {','.join(columns)!r}.")
            for cells in reader:
                place = f"{path}, line {reader.line_num}"
                if len(cells) != len(columns):
                    raise ConfigError(f"{place}: {len(cells)} cells; expected {len(columns)}.")
                yield place, dict(zip(columns, cells, strict=True))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not there.") from error
    except EOFError as error:
        raise ConfigError(f"{path} is cut off: its gzip stream has no end.") from error
    except gzip.BadGzipFile as error:
        raise ConfigError(f"{path} is not a whole gzip file: {error}.") from error
    except zlib.error as error:
        raise ConfigError(f"{path} is damaged: {error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} does not hold CSV text in UTF-8: {error}.") from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from error


def _number(place: str, row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ConfigError(f"{place}: {column} is {row[column][:20]!r}; expected a number from 0.")
    return number


def _whole(place: str, row: Mapping[str, str], column: str) -> int:
    number = _number(place, row, column)
    if not number.is_integer():
        raise ConfigError(f"{place}: {column} is {row[column][:20]!r}; expected a whole number.")
    return int(number)
