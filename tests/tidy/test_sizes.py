"""Modules and functions stay small enough to read at once."""

from tests.tidy.tree import FunctionNode, sources

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_MOST = 35
#: Share of functions that may be longer than `FUNCTION_LINES_MOST`.
LONG_SHARE_MAX = 0.05
TYPICAL_MODULE_LINES = (40, 250)


def num_lines(node: FunctionNode) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_module_is_over_500_lines() -> None:
    long = [
        f"{file.path}: {file.text.count(chr(10))}"
        for file in sources("src", "tests", "examples")
        if file.text.count("\n") > MODULE_LINES_MAX
    ]
    assert not long


def test_no_function_is_over_70_lines() -> None:
    long = [
        f"{file.path}:{node.lineno} {node.name}: {num_lines(node)}"
        for file in sources("src", "tests", "examples")
        for node in file.functions()
        if num_lines(node) > FUNCTION_LINES_MAX
    ]
    assert not long


def test_most_functions_are_under_35_lines() -> None:
    sizes = [num_lines(node) for file in sources("src") for node in file.functions()]
    assert sizes
    assert sum(size > FUNCTION_LINES_MOST for size in sizes) / len(sizes) <= LONG_SHARE_MAX


def test_a_typical_module_is_neither_a_crumb_nor_a_heap() -> None:
    sizes = sorted(file.text.count("\n") for file in sources("src") if not file.path.endswith("__init__.py"))
    assert TYPICAL_MODULE_LINES[0] <= sizes[len(sizes) // 2] <= TYPICAL_MODULE_LINES[1]
