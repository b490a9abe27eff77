r"""Regular expressions from an upload: the part of the language on which engines agree, matched within a budget.

PEFT matches them with Python's ``re``, which can't be stopped. Here they run in the ``regex`` engine, which can; so
only syntax that means the same in both is taken: literals, ``.``, classes, groups, look-around, ``|``, quantifiers,
anchors and the escapes ``\. \d \w \s \b`` and the like.
"""

import math
import re
from typing import Protocol, cast

import regex

from hotset.core.clock import Clock
from hotset.core.errors import VersionRefusedError
from hotset.registry.refusals import Refusal, refusal, shown

PATTERN_CHARS_MAX = 1024

_PORTABLE = re.compile(
    r"""(?:
        [\w.,:=!<>@/\ ^$*+?|&~\#%"';-]                   # literals, anchors, quantifiers, alternatives
      | \{(?:\d{1,3}(?:,\d{0,3})?|,\d{1,3})\}          # counted quantifiers
      | \\[.dDwWsSb\-_/\\^$*+?|()\[\]{}]              # escapes
      | \((?:\?(?::|=|!|<=|<!|P<\w{1,64}>)|(?!\?))     # groups and look-around, no flags
      | \)
      | \[\^?(?:[\w.:,/@ ^$*+?(){}]|\\[.dDwWsS\-_/\\\]\[]|-(?!-)|\|(?!\|))++\]
    )*+""",
    re.VERBOSE | re.ASCII,
)
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}", re.ASCII)
#: Engines may unroll counted quantifiers, nested ones as a product.
_COUNTS_PRODUCT_MAX = 4096
#: Names as they are written in lists: no character but ``.`` means anything else than itself.
_PLAIN = re.compile(r"[\w.]+", re.ASCII)


class Matcher(Protocol):
    """Whether one module path matches."""

    def __call__(self, path: str) -> bool:
        """Return whether `path` matches, within what is left of the budget."""
        ...


class PatternBudget:
    """The time that all patterns of one adapter may take together.

    One match is stopped by the engine, which counts the process's CPU time; the sum by the clock.
    """

    def __init__(self, clock: Clock, seconds: float = 1.0) -> None:
        self._clock = clock
        self._end_s = clock.monotonic_s() + seconds

    def full(self, pattern: str, setting: str) -> Matcher:
        """Return a matcher of whole module paths, as PEFT matches ``target_modules`` given as one string.

        Raises:
            VersionRefusedError: ``pattern_invalid``.
        """
        return self._matcher(pattern, f"(?:{pattern})", setting)

    def suffix(self, pattern: str, setting: str) -> Matcher:
        """Return a matcher of module paths that end in `pattern`, as PEFT matches keys of its pattern settings.

        Raises:
            VersionRefusedError: ``pattern_invalid``.
        """
        return self._matcher(pattern, rf"(?:.*\.)?(?:{pattern})", setting)

    def _matcher(self, pattern: str, whole: str, setting: str) -> Matcher:
        check_pattern(pattern, setting)
        if is_plain(pattern):
            plain = re.compile(whole)
            return lambda path: plain.fullmatch(path) is not None
        return self._bounded(whole, pattern, setting)

    def _bounded(self, whole: str, pattern: str, setting: str) -> Matcher:
        try:
            compiled = cast(_Pattern, regex.compile(whole))
        except (regex.error, RecursionError, OverflowError) as error:
            raise _invalid(pattern, setting, f"is no regular expression ({error})") from error

        def matches(path: str) -> bool:
            left_s = self._end_s - self._clock.monotonic_s()
            try:
                if left_s > 0:
                    return compiled.fullmatch(path, timeout=left_s) is not None
            except TimeoutError:
                left_s = 0.0
            message = f"{setting}: matching {shown(pattern)} takes too long. List the module names instead."
            raise refusal(Refusal.PATTERN_TOO_SLOW, message, setting)

        return matches


class _Pattern(Protocol):
    def fullmatch(self, string: str, *, timeout: float) -> object | None: ...


def is_plain(pattern: str) -> bool:
    """Return whether a pattern is a dotted name, which takes linear time in any engine."""
    return len(pattern) <= PATTERN_CHARS_MAX and _PLAIN.fullmatch(pattern) is not None


def check_pattern(pattern: str, setting: str) -> None:
    """Check that `pattern` is a regular expression whose meaning does not depend on the engine.

    Raises:
        VersionRefusedError: ``pattern_invalid``.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise _invalid(pattern, setting, f"has more than {PATTERN_CHARS_MAX} characters")
    if not _PORTABLE.fullmatch(pattern):
        raise _invalid(pattern, setting, "uses syntax on which engines disagree")
    counts = (max(int(number or 1) for number in match.groups()) for match in _COUNTS.finditer(pattern))
    if math.prod(max(count, 1) for count in counts) > _COUNTS_PRODUCT_MAX:
        raise _invalid(pattern, setting, f"repeats more than {_COUNTS_PRODUCT_MAX} times")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _invalid(pattern, setting, f"is no regular expression ({error})") from error


def _invalid(pattern: str, setting: str, why: str) -> VersionRefusedError:
    message = f"{setting}: {shown(pattern)} {why}. List the module names instead."
    return refusal(Refusal.PATTERN_INVALID, message, setting)
