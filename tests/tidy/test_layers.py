"""Imports go one way, every module is used, and only named files touch the clock, the environment or mocks."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, sources

#: Entered from outside: the console script, child processes by ``-m``, migrations by Alembic.
ENTRY_MODULES = re.compile(r"hotset\.(cli\.main|storage\.migrations\..*)$|.*\.__main__$")


def module_name(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_module_is_used_by_another_one() -> None:
    files = sources("src")
    used = {
        name
        for file in files
        for name in imported_names(file.tree)
        if name.startswith("hotset.") and name != module_name(file.path)
    }
    by_name = {word for file in files for word in re.findall(r"\"(hotset(?:\.\w+)+)\"", file.text)}
    modules = {module_name(file.path) for file in files if not file.path.endswith("__init__.py")}
    dead = sorted(name for name in modules - used - by_name if not ENTRY_MODULES.match(name))
    assert not dead


def test_unit_tests_patch_nothing_and_neither_wait_nor_open_sockets() -> None:
    banned = {"unittest.mock", "mock", "socket", "subprocess", "httpx"}
    bad = [
        f"{file.path}: {name}"
        for file in sources("tests")
        if file.path.startswith(("tests/unit/", "tests/property/"))
        for name in imported_names(file.tree)
        if name.split(".")[0] in banned or name in banned
    ]
    bad += [
        f"{file.path}:{node.lineno} sleep"
        for file in sources("tests")
        if file.path.startswith(("tests/unit/", "tests/property/"))
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"
    ]
    assert not bad


def test_no_broad_except_but_where_it_is_the_outermost_loop() -> None:
    """`except Exception` is allowed where its line says so (ruff's BLE001), with the reason beside it."""
    bad = []
    for file in sources("src"):
        lines = file.text.splitlines()
        for node in ast.walk(file.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            is_broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if is_broad and "noqa: BLE001" not in lines[node.lineno - 1] and not _raises_again(node):
                bad.append(f"{file.path}:{node.lineno} broad")
            if all(isinstance(part, ast.Pass) for part in node.body):
                bad.append(f"{file.path}:{node.lineno} swallowed")
    assert not bad


def _raises_again(node: ast.ExceptHandler) -> bool:
    return any(isinstance(part, ast.Raise) and part.exc is None for part in ast.walk(node))


def test_nothing_is_left_unwritten() -> None:
    bad = [
        f"{file.path}:{node.lineno}"
        for file in sources("src")
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Raise) and node.exc is not None and "NotImplemented" in ast.unparse(node.exc)
    ]
    assert not bad


def test_every_test_can_fail() -> None:
    pattern = re.compile(r"\bassert|raises\(|\bcheck\w*\(|\bexpect")
    bad = [
        f"{file.path}:{node.lineno} {node.name}"
        for file in sources("tests")
        for node in file.functions()
        if node.name.startswith("test_") and not pattern.search(ast.get_source_segment(file.text, node) or "")
    ]
    assert not bad
