"""Text for a terminal: colours where they are wanted, and nothing that could steer the terminal."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Style:
    """Colours for one stream: only on a terminal, and not where NO_COLOR is set (no-color.org)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.enabled = stream is not None and stream.isatty() and not plain

    def __call__(self, text: str, *names: str) -> str:
        """The text in the named colours."""
        if not self.enabled or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"


def clean(text: object) -> str:
    """A text of somebody else without control characters: an app's words must not steer the terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in str(text))
