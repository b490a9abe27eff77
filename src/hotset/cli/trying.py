"""`hotset try`: one adapter from folder to answers, in an installation of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hotset.cli.client import AdminClient, error_of, open_client
from hotset.cli.local_verify import is_folder
from hotset.cli.output import progress, say, warn
from hotset.cli.server_process import ServerProcess
from hotset.cli.session import CLOCK, tell_first_token
from hotset.cli.settings import Settings
from hotset.cli.version_steps import bring_to
from hotset.core.errors import ServerUnreachableError

TENANT = "try"
ALIAS = "adapter"
_ANSWER_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class TryOptions:
    """What the user asked for."""

    folder: Path
    #: A folder, or the name of a base that is registered in the user's own installation.
    base: str
    synonyms: tuple[str, ...]
    ask: str | None
    other_base: bool


def try_adapter(options: TryOptions, server: ServerProcess, settings: Settings) -> None:
    """Publish, prove, approve and promote the adapter on the server, then answer one question or serve on.

    Raises:
        HotsetError: a step was refused; the error says why and what to do.
    """
    base_folder, synonyms = _find_base(options, settings)
    token = _set_up(server.admin, options, base_folder, synonyms)
    server.wait_ready()
    if options.ask is not None:
        say(ask(server.base_url, token, options.ask))
        return
    say(f"Serving {options.folder} as model {ALIAS!r}; Ctrl-C ends it and forgets all of it.\n")
    say(
        f"curl {server.base_url}/v1/chat/completions -H 'Authorization: Bearer {token}' "
        "-H 'Content-Type: application/json' \\\n"
        f"""  -d '{{"model": "{ALIAS}", "messages": [{{"role": "user", "content": "Hello"}}]}}'"""
    )
    server.wait_end()


def ask(base_url: str, token: str, question: str) -> str:
    """Return the model's answer to one question.

    Raises:
        HotsetError: what the server answered instead.
    """
    body = {"model": ALIAS, "messages": [{"role": "user", "content": question}], "temperature": 0}
    headers = {"Authorization": f"Bearer {token}"}
    try:
        response = httpx.post(
            f"{base_url}/v1/chat/completions", json=body, headers=headers, timeout=_ANSWER_TIMEOUT_S, trust_env=False
        )
    except httpx.TransportError as error:
        raise ServerUnreachableError(f"The server went away: {error}.") from error
    if not response.is_success:
        raise error_of(response.content)
    return str(response.json()["choices"][0]["message"]["content"])


def _find_base(options: TryOptions, settings: Settings) -> tuple[str, list[str]]:
    """Return the base's folder and the names under which the adapter may declare it."""
    if is_folder(options.base):
        return str(Path(options.base).absolute()), list(options.synonyms)
    with open_client(settings, CLOCK, tell_first_token) as client:
        base = client.get(f"/bases/{options.base}")
    return base["folder"], [base["name"], *base["synonyms"], *options.synonyms]


def _set_up(admin: AdminClient, options: TryOptions, base_folder: str, synonyms: list[str]) -> str:
    """Bring the adapter to active and return the token of a key that may call it."""
    with progress(options.folder.name) as show:
        admin.long("/bases", {"folder": base_folder, "name": "base", "synonyms": synonyms}, show)
        admin.post("/tenants", {"tenant": TENANT})
        overrides = ["other_base"] if options.other_base else []
        body = {"folder": str(options.folder.absolute()), "base": "base", "overrides": overrides}
        version: dict[str, Any] = admin.long(f"/adapters/{TENANT}/{ALIAS}/versions", body, show)
        for warning in version["warnings"]:
            warn(f"warning ({warning['code']}): {warning['message']}")
        bring_to(admin, version, "active", show)
    return str(admin.post("/keys", {"tenant": TENANT})["token"])
