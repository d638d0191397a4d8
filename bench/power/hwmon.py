"""Sensors that Linux lists under hwmon: INA3221 on Jetson boards, INA219, INA226 and the like elsewhere.

The numbers in ``hwmonN`` and the order of channels change from boot to boot and from board to board, so devices are
found by ``name`` and channels by ``label``. Units by the kernel's hwmon interface: millivolt, milliampere, microwatt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .rate import declared_interval
from .sensor import Found, Reading, Sensor, number_of, text_of

_INPUT_RAIL = re.compile(r"^(VDD_IN|VIN|POM_5V_IN)$", re.IGNORECASE)
_UNUSED = re.compile(r"^(NC|sum of shunt voltages)$", re.IGNORECASE)


@dataclass(frozen=True)
class HwmonSensor:
    """One channel: ``power`` in microwatts, or ``volts`` and ``amps`` in mV and mA where that file is not there."""

    name: str
    covers: str
    interval_s: float
    power: Path | None
    volts: Path
    amps: Path

    def read(self) -> Reading | None:
        if self.power is not None:
            microwatts = number_of(self.power)
            return None if microwatts is None else Reading(watts=microwatts / 1e6)
        millivolts, milliamperes = number_of(self.volts), number_of(self.amps)
        if millivolts is None or milliamperes is None:
            return None
        return Reading(watts=millivolts * milliamperes / 1e6)


def find_hwmon(root: Path) -> Found:
    """All channels of all hwmon devices that measure a current. ``interval_s`` is 0 where the driver tells none."""
    sensors: list[Sensor] = []
    reasons = []
    for device in _devices(root):
        chip = text_of(device / "name") or device.name
        channels = _channels(device)
        for number, label in sorted(channels.items(), key=lambda pair: pair[1]):
            sensor = HwmonSensor(
                name=f"{chip} {label}",
                covers=_covers(label, list(channels.values())),
                interval_s=declared_interval(device) or 0.0,
                power=path if (path := device / f"power{number}_input").exists() else None,
                volts=device / f"in{number}_input",
                amps=device / f"curr{number}_input",
            )
            if sensor.read() is None:
                reasons.append(f"{sensor.name} is there but gives no value (a disabled channel?)")
            else:
                sensors.append(sensor)
    return Found(tuple(sensors), tuple(reasons))


def _devices(root: Path) -> list[Path]:
    """Each device once, whether the kernel lists it by class or only below its i2c driver."""
    paths = [*(root / "sys/class/hwmon").glob("hwmon*"), *(root / "sys/bus/i2c/drivers").glob("ina*/*/hwmon/hwmon*")]
    return list({path.resolve(): path for path in sorted(paths)}.values())


def _channels(device: Path) -> dict[int, str]:
    """Channel number → label, for channels with a current or a power. A device may number several without labels."""
    found = {}
    for path in device.iterdir():
        match = re.fullmatch(r"(curr|power)(\d+)_input", path.name)
        if match is None:
            continue
        number = int(match[2])
        if match[1] == "curr" and not (device / f"in{number}_input").exists():
            continue
        kinds = ("in", "power", "curr")
        label = next((text for kind in kinds if (text := text_of(device / f"{kind}{number}_label"))), None)
        label = label or f"channel {number}"
        if not _UNUSED.match(label) and text_of(device / f"in{number}_enable") != "0":
            found[number] = label
    return found


def _covers(label: str, labels: list[str]) -> str:
    if _INPUT_RAIL.match(label):
        return "the board's input"
    if len(labels) == 1 and label.startswith("channel "):
        return "what is wired through this sensor"
    return "one rail of the board, not the whole"
