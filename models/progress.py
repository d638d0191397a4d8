"""How a pull tells what it is doing: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import shutil
import time
from typing import Protocol, TextIO

_BAR_WIDTH = 24
_BAR_EVERY_S = 0.1
_LINE_EVERY_S = 10.0


class Progress(Protocol):
    """Follows one task at a time; sizes are bytes."""

    def say(self, text: str) -> None:
        """A sentence on its own."""

    def start(self, label: str, total: int) -> None:
        """A task of ``total`` bytes begins."""

    def update(self, done: int) -> None:
        """So many bytes of it are done. Called often; the receiver thins it out."""

    def finish(self) -> None:
        """The task is over, whole or not."""


class Silent:
    """Tells nothing."""

    def say(self, text: str) -> None:
        pass

    def start(self, label: str, total: int) -> None:
        pass

    def update(self, done: int) -> None:
        pass

    def finish(self) -> None:
        pass


class _Reporter:
    every_s: float

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._label = ""
        self._total = self._done = 0
        self._next = 0.0

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def start(self, label: str, total: int) -> None:
        self._label, self._total, self._done = label, total, 0
        self._next = time.monotonic() + self.every_s

    def update(self, done: int) -> None:
        self._done = min(done, self._total)
        if (now := time.monotonic()) >= self._next:
            self._next = now + self.every_s
            self._draw()

    def _draw(self) -> None:
        raise NotImplementedError

    def _percent(self) -> int:
        return 100 * self._done // max(self._total, 1)


class Bar(_Reporter):
    """One line on a terminal, redrawn in place and cleared at the end."""

    every_s = _BAR_EVERY_S

    def start(self, label: str, total: int) -> None:
        super().start(label, total)
        self._draw()

    def _draw(self) -> None:
        filled = _BAR_WIDTH * self._done // max(self._total, 1)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        sizes = f"{human_size(self._done)} of {human_size(self._total)}"
        line = f"  {self._label} [{bar}] {self._percent():3d}% {sizes}"
        columns = shutil.get_terminal_size().columns  # a line that wraps could not be redrawn in place
        self._stream.write(f"\r\x1b[K{line[: columns - 1]}")
        self._stream.flush()

    def finish(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


class Lines(_Reporter):
    """A line now and then, for logs."""

    every_s = _LINE_EVERY_S

    def _draw(self) -> None:
        self.say(f"  {self._label}: {self._percent()}% of {human_size(self._total)}")

    def finish(self) -> None:
        pass


def progress_for(stream: TextIO) -> Progress:
    """A bar where someone looks at a terminal, lines where the output is kept."""
    return Bar(stream) if stream.isatty() else Lines(stream)


def human_size(size: int) -> str:
    """``98362432`` as ``98.4 MB``."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
