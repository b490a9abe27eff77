"""Writes the reference pages from the code: errors, commands, settings, metrics.

    python docs/generate.py

`tests/docs` fails while a page is not what this would write.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer.main

from hotset.cli.main import app
from hotset.cli.sections import SECTIONS
from hotset.control.problems import STATUS_OF
from hotset.core.errors import HotsetError, VersionRefusedError, leaf_errors
from hotset.core.on_call import RequestEntry
from hotset.core.quotas import BOUNDS as QUOTA_BOUNDS
from hotset.core.quotas import Quota
from hotset.core.terms import BOUNDS as TERMS_BOUNDS
from hotset.core.terms import Terms
from hotset.gateway.problems import STATUSES
from hotset.telemetry.names import LOG_FIELDS, METRICS, RANK_CLASSES

DOCS = Path(__file__).parent
_NOTICE = "<!-- Written by docs/generate.py from the code; change it there. -->"
_FIELD = re.compile(r"((?:^ {4}#: .*\n)*)^ {4}(\w+): [^\n=]+(?:=.*)?$", re.MULTILINE)
#: Of the command line itself.
_OWN_OPTIONS = frozenset({"help"})

ERRORS = """# Errors

Every error has a stable `code`. Tenants get it in OpenAI's `error.code` (before the first byte with RFC 9457's members
beside it), operators in a problem body; commands print it before the message. *Retry* says whether the same request may
succeed later without a change by the caller. `version_refused` comes with one of the reasons of `refusals.md`. Exit
status of commands: 0 done, 1 an error, 2 refused or wrongly used.
"""

COMMANDS = """# Commands

Every command goes through the admin API: of the server at `HOTSET_URL`, else of the one that runs over the state
folder, else the folder is opened under its lock for the length of the command. `--json` prints for programs; `--yes`
does without asking. `hotset --home DIR …` names the state folder. Exit status: 0 done, 1 an error, 2 refused or wrongly
used.
"""

METRICS_INTRO = """# Metrics and logs

`GET /metrics`, in Prometheus' text format. Where each process has it, what each metric is good for, and when to alert:
`observability.md`. Labels are bounded: what is not known in advance is counted as `other`; ranks are in classes
({classes}).
"""

LOGS = """## Log

One JSON line a record on standard error, with the fields {fields}.

## Request log

`logs/requests.jsonl` in the state folder: one JSON line a request, never a word of a prompt or an answer;
`hotset explain` reads it.
"""

CONFIGURATION = """# Configuration

`hotset serve -f hotset.yaml` reads one file; without it the defaults below hold. A later source wins: defaults, file,
`HOTSET_*` variables, flags. An unknown key, a value out of bounds or a folder that is not there is an error, and all
errors are reported at once (`hotset config check -f hotset.yaml`). `hotset config show` prints what is in force.

```yaml
server:
  tenant_port: 8080
engine:
  num_slots: 8
bases:
  - name: smollm2-135m
    folder: models/smollm2-135m          # seen from this file
    synonyms: [HuggingFaceTB/SmolLM2-135M-Instruct]
tenants:
  - acme                                 # or with its quota of each worker's slots, and its terms:
  - {tenant: globex, reserve_slots: 2, limit_slots: 4, loads_per_minute: 30, reserve_bytes: 512MiB}
  - {tenant: initech, requests_per_minute: 600, tokens_per_minute: 200000, first_token_budget_ms: 5000}
pools:
  - pool: acme-own                       # pools.md
    base: smollm2-135m
    kind: dedicated                      # or shared
    release_schedule: mon-thu 09:00-16:00
    tenants: [acme]
adapters:
  - adapter: acme/support                # owner/name; the owner calls it by its name
    folder: adapters/support
    base: smollm2-135m
    overrides: []                        # ignore_shipped_tokenizer, other_base
grants:
  - {tenant: globex, adapter: acme/support, alias: help}
  - {tenant: globex, base: smollm2-135m}
```

The lists declare what is to be there. A server brings the installation to it at each start: what is missing is
registered, published, proved, approved (in a one-person install) and promoted; what is there is left alone; nothing is
ever removed. Quotas and terms alone are set again at each start, to the numbers that stand here; a number that is left
out stays as it is, and `null` is the default. So are the release schedule and the tenants of pools. Settings of bytes
take `512MiB` or `1.5GB` as well as a number.

| variable | what |
|---|---|
| `HOTSET_HOME` | the state folder; else the platform's folder for user data |
| `HOTSET_CONFIG` | the file, where `-f` is not given |
| `HOTSET_URL`, `HOTSET_TOKEN` | a server elsewhere and an operator token for it: commands go there |
| `HOTSET_SECTION_KEY` | one key of a section below, such as `HOTSET_SERVER_TENANT_PORT=9000` |
"""


def pages() -> dict[str, str]:
    """Return every page by its file's name."""
    return {
        "errors.md": errors_page(),
        "cli.md": commands_page(),
        "configuration.md": configuration_page(),
        "metrics.md": metrics_page(),
    }


def errors_page() -> str:
    """Return the page of error codes."""
    rows = [
        (
            f"`{leaf.code}`",
            leaf.__doc__.splitlines()[0] if leaf.__doc__ else "",
            str(STATUSES.get(leaf, "-")),
            str(next((STATUS_OF[kind] for kind in leaf.__mro__ if kind in STATUS_OF), 500)),
            "yes" if leaf.retryable else "no",
        )
        for leaf in leaf_errors()
    ]
    rows.append((f"`{HotsetError.code}`", "A fault of Hotset's own; the log has it.", "500", "500", "no"))
    assert VersionRefusedError in leaf_errors()
    columns = ("code", "meaning", "tenant plane", "operator plane", "retry")
    return "\n".join((_NOTICE, ERRORS, table(columns, rows)))


def commands_page() -> str:
    """Return the page of commands."""
    return "\n".join((_NOTICE, COMMANDS, *_commands(typer.main.get_command(app), "hotset")))


def configuration_page() -> str:
    """Return the page of settings."""
    parts = [_NOTICE, CONFIGURATION]
    for name, (settings, bounds) in {
        "tenants (quota)": (Quota, QUOTA_BOUNDS),
        "tenants (terms)": (Terms, TERMS_BOUNDS),
        **SECTIONS,
    }.items():
        doc = inspect.getdoc(settings) or ""
        meanings = meanings_of(settings)
        rows = [
            (f"`{entry.name}`", f"`{_shown(entry.default)}`", _bounds(bounds.get(entry.name)), meanings[entry.name])
            for entry in fields(settings)
            if entry.default is not MISSING
        ]
        parts += [f"## `{name}`\n", f"{doc.splitlines()[0]}\n", table(("key", "default", "bounds", "meaning"), rows)]
    return "\n".join(parts)


def metrics_page() -> str:
    """Return the page of metrics and logs."""
    rows = [
        (
            f"`{metric.name}{'_total' if metric.kind == 'counter' else ''}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels) or "-",
            metric.help,
        )
        for metric in METRICS
    ]
    meanings = meanings_of(RequestEntry)
    entries = [(f"`{name}`", meanings[name] or name.replace("_", " ")) for name in RequestEntry.__struct_fields__]
    intro = METRICS_INTRO.format(classes=", ".join(map(str, RANK_CLASSES)))
    logs = LOGS.format(fields=", ".join(f"`{name}`" for name in LOG_FIELDS))
    metrics = table(("metric", "kind", "labels", "meaning"), rows)
    return "\n".join((_NOTICE, intro, metrics, logs, table(("field", "meaning"), entries)))


def meanings_of(owner: type[Any]) -> dict[str, str]:
    """Return what the comments before a class's fields say; a name that says it all has none."""
    source = inspect.getsource(owner)
    found = {
        match[2]: " ".join(line.strip()[3:] for line in match[1].splitlines()) for match in _FIELD.finditer(source)
    }
    return {name: found.get(name, "").strip() for name in found}


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(columns)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None or (command.invoke_without_command and command.name is not None and command.params):
        yield from _command(command, name)
    for child_name, child in (children or {}).items():
        yield from _commands(child, f"{name} {child_name}")


def _command(command: Any, name: str) -> Iterator[str]:
    arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    yield f"## `{' '.join([name, *arguments])}`\n"
    said = command.help if not hasattr(command, "commands") else command.callback.__doc__
    yield f"{(said or '').splitlines()[0]}\n"
    rows = [
        (", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts)), parameter.help)
        for parameter in command.params
        if parameter.name not in _OWN_OPTIONS and parameter.help
    ]
    if rows:
        yield table(("argument or option", "meaning"), rows)


def _argument(parameter: Any) -> str:
    name = parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _bounds(bounds: tuple[float, float] | None) -> str:
    return "-" if bounds is None else f"{bounds[0]:,} to {bounds[1]:,}"


def _shown(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def main() -> None:
    """Write every page."""
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
