"""Batteries and chargers that Linux knows as power supplies: µW, or µV and µA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .sensor import Found, Reading, Sensor, number_of, text_of


@dataclass(frozen=True)
class SupplySensor:
    """One supply. A battery gives a reading only while it is what feeds the machine."""

    name: str
    folder: Path
    battery: bool
    interval_s: float = 0.0  # fuel gauges differ between 0.25 s and half a minute

    @property
    def covers(self) -> str:
        return "the whole machine, while it runs on battery" if self.battery else "what this supply delivers"

    def read(self) -> Reading | None:
        if self.battery and text_of(self.folder / "status") != "Discharging":
            return None
        watts = _watts(self.folder)
        return None if watts is None else Reading(watts=watts)


def find_supplies(root: Path) -> Found:
    """Every supply that tells a power; batteries that are being charged are named as not usable."""
    sensors: list[Sensor] = []
    reasons = []
    for folder in sorted((root / "sys/class/power_supply").glob("*")):
        kind = text_of(folder / "type") or "supply"
        name = f"{kind.lower()} {folder.name}"
        if text_of(folder / "scope") == "Device":
            continue  # of a mouse or a headset
        if _watts(folder) is None:
            if kind == "Battery":
                reasons.append(f"{name} tells no current")
            continue
        sensor = SupplySensor(name, folder, kind == "Battery")
        if sensor.read() is None:
            state = text_of(folder / "status") or "in an unknown state"
            reasons.append(f"{name} is {state.lower()}: its current is not what the machine draws; unplug the charger")
        else:
            sensors.append(sensor)
    return Found(tuple(sensors), tuple(reasons))


def _watts(folder: Path) -> float | None:
    """Drivers disagree about the sign while discharging, so it is dropped."""
    if (power := number_of(folder / "power_now")) is not None:
        return abs(power) / 1e6
    volts, amps = number_of(folder / "voltage_now"), number_of(folder / "current_now")
    return None if volts is None or amps is None else abs(volts * amps) / 1e12
