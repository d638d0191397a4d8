"""From a model's bytes to text that may be shown: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Turns token bytes into text as it becomes certain; ``stopped`` tells that a stop string was met.

    What could be the beginning of a stop string, or of a character, is held back until more is known.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._stop = tuple(filter(None, stop))
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """Text that became certain by these bytes, often ``""``."""
        if self.stopped:
            return ""
        self._held += self._decoder.decode(data)
        found = [at for at in map(self._held.find, self._stop) if at >= 0]
        if found:
            self.stopped = True
            return self._take(min(found))
        return self._take(len(self._held) - self._doubtful())

    def finish(self) -> str:
        """The text still held back, now that no more comes; half a character is dropped."""
        return "" if self.stopped else self._take(len(self._held))

    def _doubtful(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        return max(
            (size for stop in self._stop for size in range(1, len(stop)) if self._held.endswith(stop[:size])), default=0
        )

    def _take(self, size: int) -> str:
        text, self._held = self._held[:size], self._held[size:]
        return text
