"""What Hotset's log says while a test looks; every logger is as it was afterwards."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from hotset.telemetry.logs import configure


@contextmanager
def captured_log() -> Iterator[io.StringIO]:
    """Set logging up as a command does, but write to what is given."""
    loggers = [logging.getLogger(name) for name in ("hotset", "uvicorn.error")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    stream = io.StringIO()
    try:
        configure(stream=stream)
        yield stream
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagate
