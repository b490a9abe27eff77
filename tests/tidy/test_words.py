"""Names use the glossary's words; text carries no leftovers and nothing of the machine it was written on."""

import ast
import re

from tests.tidy.tree import FunctionNode, SourceFile, sources, texts

BANNED_IN_NAMES = {"manager", "helper", "helpers", "utils", "util", "data", "info", "common"}
#: Words of libraries that call us by them, which are not ours to choose.
NOT_OURS = {"data_received", "get_extra_info", "write", "writelines"}
BANNED_VERBS = {"process"}
#: Each has a class or a bracket within, so that this file does not find itself.
HOSTS = r"py[p]i\.org|python[h]osted\.org|registry\.npm[j]s|download\.py[t]orch\.org"
MACHINE_PATHS = r"(?<![\w.$}])/(?:work|farm|opt/(?:pypi|wheels)|root)/"
LEFTOVERS = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
MACHINE = re.compile(f"{HOSTS}|{MACHINE_PATHS}", re.IGNORECASE)


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def names_in(file: SourceFile) -> list[tuple[str, int]]:
    """Names that the file itself gives: modules, classes, functions, parameters, variables."""
    found = [(part, 0) for part in file.path.removesuffix(".py").split("/")]
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ClassDef):
            found.append((node.name, node.lineno))
        elif isinstance(node, FunctionNode):
            arguments = [] if node.name in NOT_OURS else [*node.args.args, *node.args.kwonlyargs]
            found += [(node.name, node.lineno), *((argument.arg, node.lineno) for argument in arguments)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append((node.id, node.lineno))
    return found


def is_banned(name: str) -> bool:
    words = words_of(name)
    return name not in NOT_OURS and bool(
        BANNED_IN_NAMES & set(words) or (words and words[0] in BANNED_VERBS and len(words) > 1)
    )


def test_names_use_no_banned_word() -> None:
    bad = [
        f"{file.path}:{line} {name}"
        for file in sources("src", "tests", "examples")
        for name, line in names_in(file)
        if is_banned(name)
    ]
    assert not bad


def test_the_rule_for_names_sees_what_it_bans() -> None:
    assert all(map(is_banned, ("StoreManager", "http_utils", "load_data", "process_event", "ModelInfo")))
    assert not any(map(is_banned, ("metadata", "database", "engine_process", "information", "process")))


def test_no_leftovers() -> None:
    bad = [
        f"{path}: {match[0]}"
        for path, text in texts()
        if path.endswith((".py", ".md", ".toml", ".sh")) or "." not in path.rsplit("/", 1)[-1]
        for match in LEFTOVERS.finditer(text)
    ]
    assert not bad


def test_no_file_names_a_registry_host_or_a_path_of_one_machine() -> None:
    bad = [f"{path}: {match[0]}" for path, text in texts() for match in MACHINE.finditer(text)]
    assert not bad


def test_the_rule_for_machine_paths_sees_what_it_bans() -> None:
    assert MACHINE.search("see /" + "work/main/x")
    assert MACHINE.search("https://py" + "pi.org/simple")
    assert not MACHINE.search("/srv/models/work/base")
