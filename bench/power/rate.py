"""How often a sensor has a new value: so often it is read, and no oftener."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from .sensor import number_of

DEFAULT_S = 1.0
_POLL_S = 0.005
_WATCH_S = 1.5
_ENOUGH = 8
_FASTEST_S = 0.02


def declared_interval(device: Path) -> float | None:
    """The seconds of hwmon's ``update_interval`` (milliseconds), where the driver has it."""
    milliseconds = number_of(device / "update_interval")
    return max(milliseconds / 1000, _FASTEST_S) if milliseconds else None


def detect_interval(
    read: Callable[[], float | None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    *,
    watch_s: float = _WATCH_S,
) -> float:
    """The median time between changes of ``read()``, watched for ``watch_s`` at most.

    A value that hardly changes may be a slow sensor or a steady draw: then ``DEFAULT_S``. Never below 20 ms: what
    a faster sensor adds is less than what reading it costs.
    """
    begin = clock()
    last = read()
    changed: list[float] = []
    while clock() - begin < watch_s and len(changed) < _ENOUGH:
        sleep(_POLL_S)
        value = read()
        if value != last:
            changed.append(clock())
            last = value
    steps = [later - earlier for earlier, later in pairwise(changed)]
    return max(statistics.median(steps), _FASTEST_S) if len(steps) >= 2 else DEFAULT_S
