"""What commands tell of a version, and of what verification said of one."""

from typing import Any

from hotset.cli.module_rows import module_rows
from hotset.cli.output import moment, print_json, print_pairs, print_table, say, size


def tell_verdict(verdict: dict[str, Any], *, as_json: bool) -> None:
    """Print what verification said."""
    if as_json:
        print_json(verdict)
        return
    code = f" ({verdict['code']})" if verdict["code"] else ""
    say(f"{verdict['verdict']}{code}: {verdict['message']}" if verdict["message"] else f"{verdict['verdict']}{code}")
    for warning in verdict["warnings"]:
        say(f"warning ({warning['code']}): {warning['message']}")
    if verdict["modules"]:
        print_table(("module", "count", "rank", "alpha", "scaling"), module_rows(verdict["modules"]), empty="")


def tell_version(version: dict[str, Any], *, as_json: bool) -> None:
    """Print where a version stands."""
    if as_json:
        print_json(version)
        return
    say(f"{version['ref']} is {state_words(version)}." + (f" {version['reason']}" if version["reason"] else ""))
    for warning in version["warnings"]:
        say(f"warning ({warning['code']}): {warning['message']}")


def state_words(version: dict[str, Any]) -> str:
    """Return a version's state, and beside it what keeps it from being served all the same."""
    return f"{version['state']} ({_bytes(version)})" if version["is_quarantined"] else str(version["state"])


def print_version(version: dict[str, Any]) -> None:
    """Print all that is known of a version, and its history."""
    approval = version["approval"]
    print_pairs(
        [
            ("version", version["ref"]),
            ("state", state_words(version)),
            ("reason", version["reason"]),
            ("base", version["base"]),
            ("digest", version["digest"]),
            ("engine name", version["engine_name"]),
            ("rank", version["rank_max"]),
            ("modules", version["num_modules"]),
            ("size", size(version["size_bytes"])),
            ("overrides", ", ".join(version["overrides"])),
            ("publisher", version["publisher"]),
            ("approved by", approval and f"{approval['reviewer']} with {approval['reviewer_key']}"),
            ("bytes", _bytes(version)),
        ]
    )
    rows = [(moment(row["at_s"]), row["state"], row["actor"], row["reason"]) for row in version["history"]]
    print_table(("when", "state", "by", "reason"), rows, empty="")


def _bytes(version: dict[str, Any]) -> str:
    states = {"is_purged": "erased", "is_banned": "banned", "is_quarantined": "quarantined"}
    return next((word for field, word in states.items() if version[field]), "stored")
