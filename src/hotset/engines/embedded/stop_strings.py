"""Ending a text before the first stop string, also where one lies across tokens. Pure."""

from collections.abc import Sequence


class StopFilter:
    """Lets text through that can no longer be the beginning of a stop string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Take the next piece.

        Returns:
            The text that may be shown now, and whether a stop string was met (the text ends before it).
        """
        if not self._stops:
            return text, False
        self._held += text
        found = [position for stop in self._stops if (position := self._held.find(stop)) >= 0]
        if found:
            shown, self._held = self._held[: min(found)], ""
            return shown, True
        keep = max(self._overlap(stop) for stop in self._stops)
        split = len(self._held) - keep
        shown, self._held = self._held[:split], self._held[split:]
        return shown, False

    def flush(self) -> str:
        """Return what was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held

    def _overlap(self, stop: str) -> int:
        """Length of the longest end of the held text that begins `stop`."""
        longest = min(len(self._held), len(stop) - 1)
        return next((size for size in range(longest, 0, -1) if self._held.endswith(stop[:size])), 0)
