"""What tests of commands start from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotset.cli.main import run

Hotset = Callable[..., Any]


@pytest.fixture
def hotset(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Hotset]:
    """Return what runs commands over a state folder: (status, answer or text, error text)."""
    for name in ("HOTSET_URL", "HOTSET_TOKEN", "HOTSET_HOME", "HOTSET_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOTSET_ENGINE_KIND", "instant")

    def over(home: Path) -> Hotset:
        def command(*arguments: object) -> tuple[int, Any, str]:
            capsys.readouterr()
            status = run(["--home", str(home), *map(str, arguments)])
            captured = capsys.readouterr()
            out = json.loads(captured.out) if "--json" in arguments and captured.out else captured.out
            return status, out, captured.err

        return command

    return over
