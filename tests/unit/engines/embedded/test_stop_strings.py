"""A text ends before the first stop string, and never shows a part of one."""

import pytest

from hotset.engines.embedded.stop_strings import StopFilter


def shown(stops: tuple[str, ...], pieces: list[str]) -> tuple[list[str], bool]:
    stop_filter = StopFilter(stops)
    texts: list[str] = []
    for piece in pieces:
        text, is_stopped = stop_filter.push(piece)
        texts.append(text)
        if is_stopped:
            return texts, True
    return [*texts, stop_filter.flush()], False


@pytest.mark.parametrize(
    ("stops", "pieces", "texts", "is_stopped"),
    [
        ((), ["a", "b"], ["a", "b", ""], False),
        (("END",), ["xEN", "Dy"], ["x", ""], True),
        (("END",), ["xEN", "d"], ["x", "ENd", ""], False),
        (("END",), ["xE", "N"], ["x", "", "EN"], False),
        (("aab",), ["aa", "ab"], ["", "a"], True),
        (("b", "ab"), ["xab"], ["x"], True),
        (("\n\n",), ["one\n", "two", "\n", "\n", "three"], ["one", "\ntwo", "", ""], True),
        (("abc", "c"), ["ab", "x"], ["", "abx", ""], False),
    ],
)
def test_table(stops: tuple[str, ...], pieces: list[str], texts: list[str], is_stopped: bool) -> None:
    assert shown(stops, pieces) == (texts, is_stopped)


def test_nothing_is_left_after_a_stop() -> None:
    stop_filter = StopFilter(["x"])
    assert stop_filter.push("axb") == ("a", True)
    assert stop_filter.flush() == ""
