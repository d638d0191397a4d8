"""How a pull tells what it is doing: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import shutil
import time
from collections import deque
from typing import Protocol, TextIO

_BAR_WIDTH = 24
_BAR_EVERY_S = 0.1
_LINE_EVERY_S = 10.0
_RATE_OVER_S = 10.0  # long enough to read, short enough to follow a network that changes


class Progress(Protocol):
    """Follows one task at a time; sizes are bytes."""

    def say(self, text: str) -> None:
        """A sentence on its own."""

    def start(self, label: str, total: int, done: int = 0) -> None:
        """A task of ``total`` bytes begins, ``done`` of which were there before."""

    def update(self, done: int) -> None:
        """So many bytes of it are done. Called often; the receiver thins it out."""

    def finish(self) -> None:
        """The task is over, whole or not."""


class Silent:
    """Tells nothing."""

    def say(self, text: str) -> None:
        pass

    def start(self, label: str, total: int, done: int = 0) -> None:
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
        self._lately: deque[tuple[float, int]] = deque()  # (monotonic time, bytes done), oldest first

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def start(self, label: str, total: int, done: int = 0) -> None:
        now = time.monotonic()
        self._label, self._total, self._done = label, total, done
        self._next = now + self.every_s
        self._lately.clear()
        self._lately.append((now, done))

    def update(self, done: int) -> None:
        if done < self._done:  # it begins anew
            self._lately.clear()
        self._done = min(done, self._total)
        if (now := time.monotonic()) >= self._next:
            self._next = now + self.every_s
            while len(self._lately) > 1 and now - self._lately[0][0] > _RATE_OVER_S:
                self._lately.popleft()
            self._lately.append((now, self._done))
            self._draw()

    def _draw(self) -> None:
        raise NotImplementedError

    def _percent(self) -> int:
        return 100 * self._done // max(self._total, 1)

    def _pace(self) -> str:
        """``, 3.2 MB/s, 5 min left``; empty before there is a rate."""
        (began, first), (now, last) = self._lately[0], self._lately[-1]
        if last <= first or now <= began:
            return ""
        rate = (last - first) / (now - began)
        return f", {human_size(int(rate))}/s, {human_time((self._total - last) / rate)} left"


class Bar(_Reporter):
    """One line on a terminal, redrawn in place and cleared at the end."""

    every_s = _BAR_EVERY_S

    def say(self, text: str) -> None:
        self._stream.write("\r\x1b[K")
        super().say(text)

    def start(self, label: str, total: int, done: int = 0) -> None:
        super().start(label, total, done)
        self._draw()

    def _draw(self) -> None:
        filled = _BAR_WIDTH * self._done // max(self._total, 1)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        sizes = f"{human_size(self._done)} of {human_size(self._total)}{self._pace()}"
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
        self.say(f"  {self._label}: {self._percent()}% of {human_size(self._total)}{self._pace()}")

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


def human_time(seconds: float) -> str:
    """``312.4`` as ``5 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
