"""Structured logging: one JSON line a record, with the request's id where there is one.

Tokens are never logged by intent; `redact` is the second line behind that intent, for texts of exceptions.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from hotset.telemetry.names import LOG_EXTRAS

_TOKEN = re.compile(r"\bhso?_[A-Za-z0-9_-]{4,}|(?i:bearer)\s+\S+")
_FIELD = "request_id"
#: From which on records of the web server are kept.
WEB_SERVER_LEVEL = logging.ERROR


def redact(text: str) -> str:
    """Replace everything that looks like a Hotset token or a bearer credential."""
    return _TOKEN.sub("[redacted]", text)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON line with the fields of `names.LOG_FIELDS`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        line: dict[str, str] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "room": record.name,
            "message": redact(record.getMessage()),
        }
        line |= {name: redact(str(getattr(record, name))) for name in LOG_EXTRAS if hasattr(record, name)}
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


def of_request(request_id: str) -> dict[str, str]:
    """Return what to pass as ``extra`` so that a record carries the request's id."""
    return {_FIELD: request_id}


def configure(*, level: int = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Send all of Hotset's records to one stream (standard error by default) as JSON lines.

    Of the web server's only errors: its warnings are of what a client sent, who could fill the log with them, and what
    it says of its start the command says itself.

    Returns:
        The handler, so that a caller can take it away again.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for name, least in (("hotset", level), ("uvicorn.error", max(level, WEB_SERVER_LEVEL))):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False
    return handler
