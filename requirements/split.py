"""Split one fully resolved requirements file into base.txt, demo.txt, dev.txt and torch-cuda.txt.

What each extra needs is read from the metadata of the installed packages, where torch is the CPU build. What only
torch's CUDA build needs is therefore in none of the extras, and goes to torch-cuda.txt with torch itself.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==.*(?:\n    .*)*", re.MULTILINE)


def read_entries(path: Path) -> dict[str, str]:
    """Return every pinned entry of a requirements file, with its hashes, by canonical name."""
    return {canonicalize_name(entry[1]): entry[0] for entry in ENTRY.finditer(path.read_text())}


def read_extras() -> dict[str, list[Requirement]]:
    """Return the project's direct dependencies ("" for those without an extra) and the build's."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    build = [Requirement(line) for line in (HERE / "build.in").read_text().splitlines()]
    extras = {"": [Requirement(text) for text in project["dependencies"]] + build}
    return extras | {
        name: [Requirement(text) for text in texts] for name, texts in project["optional-dependencies"].items()
    }


def close_over(extra: str, extras: dict[str, list[Requirement]]) -> set[str]:
    """Return the canonical names of everything that the project with this extra needs, torch left out."""
    waiting, seen = [*extras[""], *extras[extra]], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name == "hotset":
            waiting += [deeper for inner in requirement.extras for deeper in extras[inner]]
            continue
        wanted = (name, frozenset(requirement.extras))
        if wanted in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(wanted)
        for inner in ["", *requirement.extras]:
            for text in metadata.requires(name) or []:
                deeper = Requirement(text)
                if deeper.marker is None or deeper.marker.evaluate({"extra": inner}):
                    deeper.marker = None
                    waiting.append(deeper)
    return {name for name, _ in seen} - {"torch"}


def write(name: str, entries: list[str]) -> None:
    """Write one requirements file."""
    (HERE / name).write_text("\n".join(entries) + "\n")


def main() -> None:
    """Write the four files."""
    entries, extras = read_entries(Path(sys.argv[1])), read_extras()
    needed = {extra: close_over(extra, extras) for extra in ("", "demo", "dev")}
    for extra, names in needed.items():
        write(f"{extra or 'base'}.txt", [entries[name] for name in sorted(names)])
    write("torch-cuda.txt", [text for name, text in entries.items() if name not in needed["dev"]])


if __name__ == "__main__":
    main()
