"""The quick count that finds doubled keys agrees with a reader that looks at every key, for any way to write JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotset.core.errors import UnsupportedParameterError
from hotset.gateway.parse import parse_chat
from hotset.gateway.settings import GatewaySettings

SETTINGS = GatewaySettings()
BLANKS = st.sampled_from(["", "", "", " ", "\n", "\t", "\r\n", "  "])
TEXTS = st.sampled_from(["hi", 'say "x": y', '":', '" :', "model", '{"model":"a"}', "a\n:b", "é :", "\\", ":)"])
OPTIONS = [("n", "1"), ("n", "null"), ("user", '"u"'), ("user", "null"), ("top_p", "1"), ("stream", "false")]
EXTRAS = st.lists(st.sampled_from(OPTIONS), max_size=4)


def spelled(name: str, how: int) -> str:
    """The key in JSON, perhaps with one letter escaped."""
    place = how % (len(name) + 3)
    if place >= len(name):
        return json.dumps(name)
    return f'"{name[:place]}\\u{ord(name[place]):04x}{name[place + 1 :]}"'


@st.composite
def bodies(draw: st.DrawFn) -> str:
    def pair(name: str, value: str) -> str:
        return (
            f"{draw(BLANKS)}{spelled(name, draw(st.integers(0, 40)))}{draw(BLANKS)}:{draw(BLANKS)}{value}{draw(BLANKS)}"
        )

    def message() -> str:
        pairs = [("role", '"user"'), ("content", json.dumps(draw(TEXTS)))]
        pairs += draw(st.lists(st.sampled_from(pairs), max_size=1))
        return "{" + ",".join(pair(*each) for each in pairs) + "}"

    messages = "[" + ",".join(message() for _ in range(draw(st.integers(1, 3)))) + "]"
    pairs = [("model", '"a"'), ("messages", messages), *draw(EXTRAS)]
    pairs += draw(st.lists(st.sampled_from(pairs), max_size=1))
    return "{" + ",".join(pair(*each) for each in draw(st.permutations(pairs))) + "}"


def has_doubles(body: str) -> bool:
    found = False

    def look(pairs: list[tuple[str, object]]) -> None:
        nonlocal found
        found = found or len(dict(pairs)) < len(pairs)

    json.loads(body, object_pairs_hook=look)
    return found


@given(bodies())
@settings(max_examples=400, deadline=None)
def test_a_body_is_refused_for_doubles_exactly_when_it_has_some(body: str) -> None:
    if has_doubles(body):
        with pytest.raises(UnsupportedParameterError, match="twice"):
            parse_chat(body.encode(), SETTINGS)
    else:
        assert parse_chat(body.encode(), SETTINGS).model == "a"
