"""An adapter's modules as a table for people: those that are alike in every layer stand in one row."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")

#: Module pattern, how many there are, rank, alpha, scaling.
ModuleRow = tuple[str, int, int, str, str]


def module_rows(modules: Iterable[Mapping[str, Any]]) -> list[ModuleRow]:
    """Return a row for all modules that differ in their layer's number alone, in the order in which they come.

    Args:
        modules: As the admin API gives them: `module`, `rank`, `alpha`, `scaling`.
    """
    names = dict[tuple[str, int, str, str], list[str]]()
    for each in modules:
        pattern = _LAYER.sub("*", each["module"])
        alike = (pattern, each["rank"], f"{each['alpha']:g}", f"{each['scaling']:g}")
        names.setdefault(alike, []).append(each["module"])
    return [
        (found[0] if len(found) == 1 else pattern, len(found), rank, alpha, scaling)
        for (pattern, rank, alpha, scaling), found in names.items()
    ]
