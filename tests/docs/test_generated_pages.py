"""The reference pages are what the code says now, and nothing on them is left unsaid."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import typer.main

from hotset.cli.main import app
from hotset.cli.sections import SECTIONS
from hotset.core.errors import HotsetError, leaf_errors
from hotset.telemetry.names import METRICS

DOCS = Path(__file__).parents[2] / "docs"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
PAGES: dict[str, str] = GENERATOR.pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name], "run: python docs/generate.py"


def test_every_error_code_is_documented_once_and_codes_are_unique() -> None:
    codes = [leaf.code for leaf in leaf_errors()]
    assert len(codes) == len(set(codes))
    for code in (*codes, HotsetError.code):
        assert PAGES["errors.md"].count(f"| `{code}` |") == 1


def test_every_error_has_a_default_message() -> None:
    assert not [leaf for leaf in leaf_errors() if not (leaf.__doc__ or "").strip().endswith(".")]


def test_the_drawing_of_the_tree_has_every_leaf_with_its_code() -> None:
    from hotset.core import errors

    drawing = (errors.__doc__ or "").splitlines()
    for leaf in leaf_errors():
        line = next((line for line in drawing if f" {leaf.__name__} " in line), "")
        assert line, leaf
        assert leaf.code in line or leaf.__name__ == "VersionRefusedError"


def test_every_command_is_documented_and_says_what_it_does() -> None:
    commands = list(walk(typer.main.get_command(app), "hotset"))
    assert len(commands) > 30
    for name, text in commands:
        assert f"## `{name}" in PAGES["cli.md"]
        assert text.strip().endswith("."), name


def test_every_setting_is_documented_with_its_meaning_and_bounds() -> None:
    for name, (settings, bounds) in SECTIONS.items():
        meanings = GENERATOR.meanings_of(settings)
        for key, meaning in meanings.items():
            assert meaning, f"{name}.{key} has no comment that says what it is"
            assert f"| `{key}` |" in PAGES["configuration.md"]
        numbers = {key for key, kind in settings.__annotations__.items() if kind in (int, float, "int", "float")}
        assert numbers <= set(bounds), f"{name}: a number without bounds"


def test_every_metric_is_documented() -> None:
    for metric in METRICS:
        assert f"| `{metric.name}" in PAGES["metrics.md"]
        assert metric.name.startswith("hotset_")
        assert ":" not in metric.name
        assert metric.help.endswith(".") or metric.kind == "gauge"


def walk(command: object, name: str) -> list[tuple[str, str]]:
    children = getattr(command, "commands", None)
    if children is None:
        return [(name, str(getattr(command, "help", "") or "").splitlines()[0])]
    return [found for child, body in children.items() for found in walk(body, f"{name} {child}")]
