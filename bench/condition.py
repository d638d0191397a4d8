"""How the machine fares just now: temperatures, clock, throttling, load. Taken before and after each suite.

Sources: thermal zones and ``thermal_throttle`` of sysfs, ``vcgencmd get_throttled`` and ``measure_temp`` on a
Raspberry Pi (bits 0-3 are now, 16-19 since boot).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_VCGENCMD_S = 5.0
_FLAGS = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}
_HOT_RISE_C = 15.0
_BUSY_LOAD = 0.5

Run = Callable[[Sequence[str]], str | None]
"""The standard output of a command, None where it is not installed or fails."""


@dataclass(frozen=True)
class Condition:
    """Degrees Celsius by zone, MHz of core 0, throttle events since boot, the Pi's flag word, the load of a minute."""

    celsius: dict[str, float] = field(default_factory=dict)
    mhz: int | None = None
    throttle_events: int | None = None
    pi_flags: int | None = None
    load_1min: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """In one line; what cannot be told is said to be so."""
        heat = ", ".join(f"{zone} {value:.1f} °C" for zone, value in self.celsius.items()) or "no temperature sensor"
        parts = [heat]
        if self.mhz is not None:
            parts.append(f"{self.mhz} MHz")
        if self.throttle_events is not None:
            parts.append(f"{self.throttle_events} throttle events since boot")
        if self.pi_flags is not None:
            parts.append("flags " + (", ".join(flags_now(self.pi_flags)) or "clear"))
        if self.throttle_events is None and self.pi_flags is None:
            parts.append("no throttle counter")
        if self.load_1min is not None:
            parts.append(f"load {self.load_1min:.2f}")
        return ", ".join(parts)


def read_condition(root: Path = Path("/"), run: Run | None = None) -> Condition:
    """The present condition; ``root`` is where ``sys`` is read, ``run`` runs vcgencmd."""
    run = run or run_command
    celsius = {}
    for zone in sorted((root / "sys/class/thermal").glob("thermal_zone*")):
        if (value := _number(zone / "temp")) is not None:
            name = _text(zone / "type") or zone.name
            celsius[name if name not in celsius else f"{name} ({zone.name})"] = value / 1000
    if (told := run(["vcgencmd", "measure_temp"])) and (found := re.search(r"(-?\d+(?:\.\d+)?)", told)):
        celsius.setdefault("vcgencmd", float(found[1]))
    khz = _number(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
    counts = [
        value
        for path in sorted((root / "sys/devices/system/cpu").glob("cpu*/thermal_throttle/*_throttle_count"))
        if (value := _number(path)) is not None
    ]
    return Condition(
        celsius=celsius,
        mhz=None if khz is None else round(khz / 1000),
        throttle_events=round(sum(counts)) if counts else None,
        pi_flags=_pi_flags(root, run),
        load_1min=round(os.getloadavg()[0], 2),
    )


def troubles(before: Condition, after: Condition) -> list[str]:
    """What happened between two conditions that makes the figures doubtful, a sentence each."""
    found = []
    if before.load_1min is not None and before.load_1min > _BUSY_LOAD:
        found.append(
            f"The machine had other work when this began (load {before.load_1min:.2f}): absolute figures are worse "
            "than they would be, and ratios within this run tell more."
        )
    if before.throttle_events is not None and after.throttle_events is not None:
        events = after.throttle_events - before.throttle_events
        if events > 0:
            found.append(f"The processor was throttled {events} times during the run: the figures are too slow.")
    if after.pi_flags is not None:
        new = after.pi_flags & ~(before.pi_flags or 0)
        names = dict.fromkeys(flags_now(after.pi_flags) + flags_now(new >> 16))
        if names:
            found.append(f"The board reports {', '.join(names)} during the run: the figures are too slow.")
    rises = [after.celsius[zone] - value for zone, value in before.celsius.items() if zone in after.celsius]
    if rises and max(rises) > _HOT_RISE_C:
        found.append(f"It became {max(rises):.0f} °C hotter during the run; let it cool before the next one.")
    return found


def flags_now(word: int) -> list[str]:
    """The names of the flags that are set in the low bits of the Pi's throttle word."""
    return [name for bit, name in _FLAGS.items() if word >> bit & 1]


def run_command(argv: Sequence[str]) -> str | None:
    """The default :data:`Run`."""
    try:
        done = subprocess.run(list(argv), capture_output=True, text=True, timeout=_VCGENCMD_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _pi_flags(root: Path, run: Run) -> int | None:
    told = run(["vcgencmd", "get_throttled"]) or _text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    if told is None:
        return None
    found = re.search(r"(?:=|^)\s*(?:0x)?([0-9a-fA-F]+)\s*$", told.strip())
    return int(found[1], 16) if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip() or None
    except OSError:
        return None


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None
