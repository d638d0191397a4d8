"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Finding:
    """``message`` is one plain sentence; ``mend`` the command that mends it, or what a hand must do, ``""`` for ok.

    A ``warning`` is what famulus can run with, a ``fault`` what it cannot.
    """

    name: str
    level: Level
    message: str
    mend: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name, "ok", message)


def warning(name: str, message: str, mend: str) -> Finding:
    return Finding(name, "warning", message, mend)


def fault(name: str, message: str, mend: str) -> Finding:
    return Finding(name, "fault", message, mend)
