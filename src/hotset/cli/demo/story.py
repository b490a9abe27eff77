"""The demo's story, told through the official ``openai`` client against a running server.

One question goes to every tenant's model at once; the answers stream side by side. Then one tenant asks for
another's model, and for one that does not exist, and gets the same answer to both.
"""

import contextlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hotset.cli.demo.cast import ANSWER_TOKENS_MAX, BASE_NAME, BASE_TENANT, CAST, QUESTION
from hotset.core.clock import Clock
from hotset.core.errors import ConfigError, EngineFailedError

REQUEST_TIMEOUT_S = 120.0
REFRESH_HZ = 8.0


@dataclass
class Line:
    """One model's answer as it arrives; filled by one thread, shown by another."""

    tenant: str
    model: str
    text: str = ""
    route: str = ""
    lane: str = ""
    first_token_s: float | None = None
    completion_tokens: int = 0
    error: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def extend(self, text: str, since_start_s: float) -> None:
        """Add text; the first piece fixes the time to the first token."""
        with self._lock:
            if self.first_token_s is None:
                self.first_token_s = since_start_s
            self.text += text


def tell(base_url: str, tokens: Mapping[str, str], console: Console, clock: Clock) -> None:
    """Ask, show the answers, show the refusal, print keys and lines to paste.

    Args:
        base_url: The tenant plane, without ``/v1``.
        tokens: API key of each tenant.
        console: Where to print.
        clock: Measures the time to the first token.

    Raises:
        ConfigError: the openai package is not installed.
        EngineFailedError: a model did not answer, or the refusal was not one.
    """
    lines = ask_everyone(base_url, tokens, console, clock)
    failed = [line for line in lines if line.error or not line.text]
    if failed:
        raise EngineFailedError(f"{failed[0].tenant}'s model {failed[0].model!r} did not answer: {failed[0].error}")
    console.print(summary(lines))
    show_refusal(base_url, tokens, console)
    show_keys(base_url, tokens, console)


def cast_lines() -> list[Line]:
    """Return one empty line for each model of the demo, the bare base last."""
    return [Line(role.owner, role.name) for role in CAST] + [Line(BASE_TENANT, BASE_NAME)]


def ask_everyone(base_url: str, tokens: Mapping[str, str], console: Console, clock: Clock) -> list[Line]:
    """Put the question to every model at once and show the answers while they stream."""
    lines = cast_lines()
    console.print(Text.assemble("\nOne question to every model at once: ", (QUESTION, "bold")))
    with contextlib.ExitStack() as stack:
        clients = {tenant: stack.enter_context(open_client(base_url, token)) for tenant, token in tokens.items()}
        threads = [
            threading.Thread(target=ask, args=(clients[line.tenant], line, clock), daemon=True) for line in lines
        ]
        for thread in threads:
            thread.start()
        if console.is_terminal:
            show_while_alive(threads, lines, console)
        for thread in threads:
            thread.join()
    console.print(panels(lines))
    return lines


def show_while_alive(threads: list[threading.Thread], lines: list[Line], console: Console) -> None:
    """Draw the answers again and again until every thread has ended."""
    with Live(panels(lines), console=console, refresh_per_second=REFRESH_HZ, transient=True) as live:
        for thread in threads:
            while thread.is_alive():
                thread.join(1 / REFRESH_HZ)
                live.update(panels(lines))


def open_client(base_url: str, token: str) -> Any:
    """Return an unchanged OpenAI client for the tenant plane, to be closed by the caller.

    Raises:
        ConfigError: the openai package is not installed.
    """
    try:
        from openai import OpenAI
    except ImportError as error:
        message = "The demo needs the openai package: run pip install 'hotset[demo]'."
        raise ConfigError(message, param="openai") from error
    return OpenAI(base_url=f"{base_url}/v1", api_key=token, max_retries=0, timeout=REQUEST_TIMEOUT_S)


def ask(client: Any, line: Line, clock: Clock) -> None:
    """Stream the answer to the question into the line."""
    from openai import OpenAIError

    began = clock.monotonic_s()
    try:
        reply = client.chat.completions.with_raw_response.create(
            model=line.model,
            messages=[{"role": "user", "content": QUESTION}],
            temperature=0,
            max_tokens=ANSWER_TOKENS_MAX,
            stream=True,
            stream_options={"include_usage": True},
        )
        line.route = reply.headers.get("hotset-route", "")
        line.lane = reply.headers.get("hotset-lane", "")
        for chunk in reply.parse():
            if chunk.usage is not None:
                line.completion_tokens = chunk.usage.completion_tokens
            if chunk.choices and chunk.choices[0].delta.content:
                line.extend(chunk.choices[0].delta.content, clock.monotonic_s() - began)
    except OpenAIError as error:
        line.error = str(error)


def panels(lines: list[Line]) -> RenderableType:
    """Return the answers so far, side by side."""
    boxes = [
        Panel(Text(line.text or line.error or "…"), title=f"{line.tenant}: {line.model}", width=38) for line in lines
    ]
    return Columns(boxes)


def summary(lines: list[Line]) -> Table:
    """Return one row for each model: what was routed where, and how fast."""
    table = Table(title="The same base model, in one batch")
    for title in ("tenant", "model", "served by", "lane", "first token", "tokens"):
        table.add_column(title)
    for line in lines:
        first = "" if line.first_token_s is None else f"{line.first_token_s * 1000:.0f} ms"
        table.add_row(line.tenant, line.model, line.route, line.lane, first, str(line.completion_tokens))
    return table


def show_refusal(base_url: str, tokens: Mapping[str, str], console: Console) -> None:
    """Let one tenant ask for another's model and for one that does not exist; both must get the same 404.

    Raises:
        EngineFailedError: it was answered, or the two refusals differ.
    """
    asker, foreign = "globex", CAST[0]
    models = (foreign.name, foreign.adapter, "no-such-model")
    with open_client(base_url, tokens[asker]) as client:
        replies = [refusal(client, model) for model in models]
    console.print(f"\n[bold]{asker}[/] asks for {foreign.owner}'s model, and for one that does not exist:")
    for model, (status, message) in zip(models, replies, strict=True):
        console.print(f"  model={model!r}: {status} {message}", highlight=False, markup=False)
    if set(replies) != {replies[0]} or replies[0][0] != HTTPStatus.NOT_FOUND:
        raise EngineFailedError("A foreign model and an unknown one must get the same 404.")


def refusal(client: Any, model: str) -> tuple[int, str]:
    """Return status and message of the server's refusal; status 200 where it answered."""
    from openai import APIStatusError

    turns = [{"role": "user", "content": QUESTION}]
    try:
        client.chat.completions.create(model=model, messages=turns, max_tokens=1)
    except APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        return error.status_code, str(body.get("message", ""))
    return 200, ""


def show_keys(base_url: str, tokens: Mapping[str, str], console: Console) -> None:
    """Print each tenant's key and models, and a curl and a Python line that work as they stand."""
    table = Table(title="Keys (new ones at each start)")
    for title in ("tenant", "models", "key"):
        table.add_column(title, no_wrap=title == "key")
    for tenant, token in tokens.items():
        table.add_row(tenant, ", ".join(line.model for line in cast_lines() if line.tenant == tenant), token)
    console.print(table)
    role = CAST[0]
    console.print("Ask with curl:", style="bold")
    console.print(curl_line(base_url, tokens[role.owner], role.name), soft_wrap=True, highlight=False, markup=False)
    console.print("Ask with Python:", style="bold")
    console.print(python_lines(base_url, tokens[role.owner], role.name), soft_wrap=True, highlight=False, markup=False)


def curl_line(base_url: str, token: str, model: str) -> str:
    """Return a shell command that asks the model."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": QUESTION}]})
    return (
        f"curl -s {base_url}/v1/chat/completions -H 'Authorization: Bearer {token}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def python_lines(base_url: str, token: str, model: str) -> str:
    """Return a Python program that asks the model."""
    return (
        "from openai import OpenAI\n"
        f'client = OpenAI(base_url="{base_url}/v1", api_key="{token}")\n'
        f'turns = [{{"role": "user", "content": "{QUESTION}"}}]\n'
        f'answer = client.chat.completions.create(model="{model}", messages=turns)\n'
        "print(answer.choices[0].message.content)"
    )
