"""What the board tells about itself: temperature, and what holds it back. Read from sysfs; blocking, for a thread.

Sources: ``Documentation/driver-api/thermal/sysfs-api.rst`` and ``Documentation/hwmon/sysfs-interface.rst`` of Linux;
the bits of ``vcgencmd get_throttled`` in the Raspberry Pi documentation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SEEN = "_seen"
"""Ends the name of a flag that held at some time since the boot, as against now."""
_USUAL_LIMIT_C = 80.0
"""Where the firmware of a Raspberry Pi begins to slow down; for boards whose zone names no trip point."""
_COOLEST_TRIP_C = 40.0  # x86 offers trip points that nobody has set, as 0 or below
_FIRMWARE_BITS = {0: "under_voltage", 1: "frequency_capped", 2: "throttled", 3: "soft_temperature_limit"}
_PROCESSOR = re.compile(r"cpu|gpu|soc|pkg|^tj|core|k10temp", re.IGNORECASE)
_ELSEWHERE = re.compile(r"pmic|wifi|nvme|bat|fan", re.IGNORECASE)  # the PMIC-Die of a Jetson reads 100 °C at all times
_SLOWING = re.compile(r"cpufreq|devfreq|gpufreq|throttle|^Processor")  # not the fans, which cool without slowing


@dataclass(frozen=True)
class Reading:
    """What was read once.

    ``temperature_c`` is the processor's, None without a sensor; from ``limit_c`` on the board slows down.
    ``throttled`` holds ``under_voltage``, ``frequency_capped``, ``throttled``, ``soft_temperature_limit``, and
    ``…_seen`` for what is over; empty also where the board does not tell.
    """

    temperature_c: float | None = None
    limit_c: float = _USUAL_LIMIT_C
    throttled: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """``throttled`` while something holds the board back, else ``ok``."""
        return "throttled" if any(not flag.endswith(SEEN) for flag in self.throttled) else "ok"


class Board:
    """Holds the last reading, so that whoever asks on the event loop does not wait for a sensor."""

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._sys = sys
        self.reading = Reading()

    async def sample(self) -> None:
        """Read anew, on a thread."""
        self.reading = await asyncio.to_thread(read_board, self._sys)


def read_board(sys: Path = Path("/sys")) -> Reading:
    """Temperature and throttle flags as ``sys`` tells them; what cannot be read is left out."""
    temperature, limit = _temperature(sys)
    return Reading(temperature, limit, tuple(dict.fromkeys(_flags(sys))))


def firmware_flags(bits: int) -> tuple[str, ...]:
    """The flags in the number of ``vcgencmd get_throttled``: bits 0 to 3 hold now, 16 to 19 have held."""
    now = [name for bit, name in _FIRMWARE_BITS.items() if (bits >> bit) & 1]
    return (*now, *(name + SEEN for bit, name in _FIRMWARE_BITS.items() if (bits >> (bit + 16)) & 1))


def read_text(path: Path) -> str:
    """The file's text without the space around it; ``""`` where it cannot be read, as of a sensor that is off."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip(" \t\r\n\0")
    except OSError:
        return ""


def _temperature(sys: Path) -> tuple[float | None, float]:
    """The hottest processor sensor and its limit, in °C; any other sensor where no name speaks of a processor."""
    found: list[tuple[bool, float, float]] = []
    for name, temperature, limit in (*_zones(sys), *_chips(sys)):
        if not _ELSEWHERE.search(name):
            found.append((bool(_PROCESSOR.search(name)), temperature, limit))
    if not found:
        return None, _USUAL_LIMIT_C
    _, temperature, limit = max(found)
    return temperature, limit


def _zones(sys: Path) -> Iterator[tuple[str, float, float]]:
    for zone in sorted(sys.glob("class/thermal/thermal_zone*")):
        temperature = _milli(zone / "temp")
        if temperature is None:
            continue
        trips = [
            trip
            for kind in zone.glob("trip_point_*_type")
            if read_text(kind) in ("passive", "hot")
            and (trip := _milli(kind.with_name(kind.name.replace("_type", "_temp")))) is not None
            and trip > _COOLEST_TRIP_C
        ]
        yield read_text(zone / "type"), temperature, min(trips, default=_USUAL_LIMIT_C)


def _chips(sys: Path) -> Iterator[tuple[str, float, float]]:
    """Processors that have a hwmon chip and no thermal zone, as many x86 ones."""
    for chip in sorted(sys.glob("class/hwmon/hwmon*")):
        name = read_text(chip / "name")
        temperature = _milli(chip / "temp1_input") if name in ("coretemp", "k10temp", "cpu_thermal") else None
        if temperature is not None:
            yield name, temperature, _milli(chip / "temp1_max") or _milli(chip / "temp1_crit") or _USUAL_LIMIT_C


def _flags(sys: Path) -> Iterator[str]:
    for device in sorted(sys.glob("class/thermal/cooling_device*")):
        if _SLOWING.search(read_text(device / "type")) and (_number(device / "cur_state") or 0) > 0:
            yield "throttled"
    has_alarm = False
    for chip in sorted(sys.glob("class/hwmon/hwmon*")):
        name = read_text(chip / "name")
        if name == "rpi_volt":
            has_alarm = True
            if _number(chip / "in0_lcrit_alarm"):
                yield "under_voltage"
        elif name == "soctherm_oc" and any(_number(count) for count in chip.glob("oc*_*_cnt")):
            yield "over_current" + SEEN
    if not has_alarm:  # a kernel that has the alarm writes a warning with a backtrace when this file is read
        for file in sorted(sys.glob("devices/platform/soc*/*firmware/get_throttled")):
            yield from firmware_flags(_number(file, base=16) or 0)


def _milli(path: Path) -> float | None:
    number = _number(path)
    return None if number is None else number / 1000


def _number(path: Path, base: int = 10) -> int | None:
    try:
        return int(read_text(path), base)
    except ValueError:
        return None
