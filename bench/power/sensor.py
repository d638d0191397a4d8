"""What every power sensor is to the recorder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Reading:
    """Either the power now in watts, or the joules since the last reading."""

    watts: float | None = None
    joules: float | None = None


class Sensor(Protocol):
    """One thing that can be measured. ``read`` may take milliseconds: never call it on an event loop.

    ``covers`` says what the figure holds and what it misses; ``interval_s`` is how often the sensor has a new value.
    """

    @property
    def name(self) -> str: ...

    @property
    def covers(self) -> str: ...

    @property
    def interval_s(self) -> float: ...

    def read(self) -> Reading | None:
        """The value now; None where the sensor gives none at the moment."""


@dataclass(frozen=True)
class Found:
    """What a search gave: sensors, and why others that are there cannot be used."""

    sensors: tuple[Sensor, ...] = ()
    reasons: tuple[str, ...] = ()


def text_of(path: Path) -> str | None:
    """The stripped content of a sysfs file; None where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip() or None
    except OSError:
        return None


def number_of(path: Path) -> float | None:
    """The number in a sysfs file; None where there is none or the sensor refuses."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
