"""A number that was said, with its unit and its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["", "percent", "share", "second", "minute", "hour", "day", "degree", "fahrenheit", "other"]
SECONDS: dict[str, int] = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


@dataclass(frozen=True)
class Quantity:
    """``value`` of ``unit``, said at ``start:end``.

    A ``share`` is a part of the whole, 0 to 1; ``other`` is a unit that no parameter counts in (o'clock, pounds).
    """

    value: float
    unit: Unit
    start: int
    end: int
