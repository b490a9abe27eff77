"""How a command that started others ends, when it is told to: it leaves its contexts, so that nothing of it stays."""

import contextlib
import signal
from collections.abc import Generator
from threading import current_thread, main_thread
from types import FrameType


@contextlib.contextmanager
def ending_in_order() -> Generator[None]:
    """Leave the block by an exception when this process gets SIGTERM, which would otherwise end it where it stands."""
    if current_thread() is not main_thread():  # only there may signals be minded, and is an exception raised by them
        yield
        return
    former = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _leave(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # told twice, it still ends in order
    raise SystemExit(128 + number)
