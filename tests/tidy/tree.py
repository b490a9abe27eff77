"""Reads the tracked files of this clone once, for every house rule."""

import ast
import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """One Python file, parsed."""

    path: str
    text: str
    tree: ast.Module

    def functions(self) -> list[FunctionNode]:
        """Every function and method, nested ones too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, FunctionNode)]


@functools.cache
def tracked_files() -> tuple[str, ...]:
    """Return the paths of all tracked files, and of new ones that git does not ignore; in an archive, of all."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = listing.stdout.splitlines() if listing.returncode == 0 else _walk()
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def _walk() -> list[str]:
    tops = ("src", "tests", "docs", "examples", "requirements")
    return [str(path.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*") if path.is_file()]


@functools.cache
def sources(*tops: str) -> tuple[SourceFile, ...]:
    """Return the Python files under the given top folders."""
    found = []
    for name in tracked_files():
        if name.endswith(".py") and name.split("/")[0] in tops:
            text = (ROOT / name).read_text(encoding="utf-8")
            found.append(SourceFile(name, text, ast.parse(text)))
    return tuple(found)


@functools.cache
def texts() -> tuple[tuple[str, str], ...]:
    """Return (path, text) of every tracked file that is text, apart from lock files of hashes."""
    found = []
    for name in tracked_files():
        content = (ROOT / name).read_bytes()
        if b"\x00" not in content[:4096] and len(content) < 1_000_000:
            found.append((name, content.decode("utf-8", errors="replace")))
    return tuple(found)
