"""Intel's and AMD's energy counters (RAPL), through powercap: microjoules since some moment, with a wrap."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .sensor import Found, Reading, Sensor, number_of, text_of

_INTERVAL_S = 0.1  # the counter itself moves every millisecond; reading it so often would be a load of its own


@dataclass
class RaplSensor:
    """One zone. The first reading gives 0 J; each further one what was used since, the wrap taken into account."""

    name: str
    covers: str
    counter: Path
    range_uj: float
    interval_s: float = _INTERVAL_S
    _last: float | None = field(default=None, repr=False)

    def read(self) -> Reading | None:
        now = number_of(self.counter)
        if now is None:
            self._last = None
            return None
        last, self._last = self._last, now
        used = 0.0 if last is None else now - last
        if used < 0:
            if self.range_uj <= 0:
                return None  # nobody tells where it wraps
            used += self.range_uj
        return Reading(joules=used / 1e6)


def find_rapl(root: Path) -> Found:
    """The packages, or the platform zone where there is one. Parts of a package are left out: it holds them."""
    sensors: list[Sensor] = []
    reasons = []
    for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        if zone.name.count(":") != 1:
            continue
        name = text_of(zone / "name") or zone.name
        counter = zone / "energy_uj"
        if number_of(counter) is None:
            if counter.exists():
                reasons.append(f"RAPL {name} is there but may be read by root only: run this as root")
            continue
        sensors.append(
            RaplSensor(
                name=f"RAPL {name}",
                covers="the whole platform" if name == "psys" else "the processor package, not the board",
                counter=counter,
                range_uj=number_of(zone / "max_energy_range_uj") or 0.0,
            )
        )
    return Found(tuple(sensors), tuple(reasons))
