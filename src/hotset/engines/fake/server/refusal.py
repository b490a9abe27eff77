"""How an engine says no, in the words and with the statuses of vLLM. Source: seen on vLLM 0.32.0."""

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

_FIELD = re.compile(r"required field `(\w+)`|at `\$\.(\w+)")
_Body = TypeVar("_Body", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error."""

    status: int
    kind: str
    message: str
    param: str | None = None

    def body(self) -> dict[str, object]:
        """Return it as JSON says it, the status in ``code``."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}

    def answer(self) -> Response:
        """Return it as an answer."""
        return json_answer(self.body(), self.status)


ENGINE_DIED = Refusal(
    500, "InternalServerError", "EngineCore encountered an issue. See stack trace (above) for the root cause."
)


def json_answer(content: object, status: int = 200) -> Response:
    """Return a value as a JSON answer."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def read_body(request: Request, kind: type[_Body]) -> _Body | Refusal:
    """Return a request's body; unknown fields are passed over."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return Refusal(400, "Bad Request", "Unsupported Media Type: Only 'application/json' is allowed")
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        name = (found[1] or found[2]) if found else ""
        what = "missing" if found and found[1] else "type"
        message = f"1 validation error:\n  {{'type': '{what}', 'loc': 'body.{name}', 'msg': '{error}'}}"
        return Refusal(400, "Bad Request", message, f"body.{name}")
    except msgspec.DecodeError as error:
        return Refusal(400, "Bad Request", f"1 validation error:\n  {{'type': 'json_invalid', 'msg': '{error}'}}")
