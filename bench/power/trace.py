"""Readings of one sensor over time, and the energy between any two moments."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

_GAP = 3.5
_LATE_S = 0.5
"""A reading may come late on a busy board: only so many intervals, and at least half a second, without one are a gap
in which the energy is not known. A counter of energy loses nothing meanwhile, unless it wraps more than once."""
_COUNTER_GAP_S = 60.0


@dataclass
class Trace:
    """Energy in joules since the first reading, over monotonic seconds; ``interval_s`` is how often it is read.

    Power readings are joined by straight lines (the trapezoid rule), counters of energy are taken as they are.
    """

    interval_s: float
    _times: list[float] = field(default_factory=list)
    _joules: list[float] = field(default_factory=list)
    _gaps: list[tuple[float, float]] = field(default_factory=list)
    _watts: float | None = None

    @property
    def readings(self) -> int:
        return len(self._times)

    def add_power(self, at: float, watts: float) -> None:
        """A reading in watts. A reading that is not after the last one is dropped."""
        if self._times and at <= self._times[-1]:
            return
        before = self._watts if self._watts is not None else watts
        step = (at - self._times[-1]) * (before + watts) / 2 if self._times else 0.0
        self._append(at, step, max(_GAP * self.interval_s, _LATE_S))
        self._watts = watts

    def add_energy(self, at: float, joules: float) -> None:
        """What was used since the last reading, in joules; the first one only marks the beginning."""
        if self._times and at <= self._times[-1]:
            return
        self._append(at, joules if self._times else 0.0, _COUNTER_GAP_S)

    def add_gap(self, at: float) -> None:
        """The sensor gave nothing at ``at``: from the last reading to the next one nothing is known."""
        if self._times and at > self._times[-1]:
            self._watts = None
            self._gaps.append((self._times[-1], at))

    def joules(self, start: float, end: float) -> float | None:
        """The energy of that time; None where readings are missing for a part of it."""
        if len(self._times) < 2 or end <= start:
            return None
        slack = self.interval_s
        if start < self._times[0] - slack or end > self._times[-1] + slack:
            return None
        if any(begin < end and until > start for begin, until in self._gaps):
            return None
        return self._at(end) - self._at(start)

    def updates(self, start: float, end: float) -> int:
        """How many readings lie in that time."""
        return bisect.bisect_right(self._times, end) - bisect.bisect_left(self._times, start)

    def _append(self, at: float, joules: float, longest_s: float) -> None:
        if self._times:
            last = self._times[-1]
            if at - last > longest_s:
                self._gaps.append((last, at))
            elif self._gaps and self._gaps[-1][1] > last:  # a gap lasts until there is a reading again
                self._gaps[-1] = (self._gaps[-1][0], at)
        self._joules.append((self._joules[-1] if self._joules else 0.0) + joules)
        self._times.append(at)

    def _at(self, moment: float) -> float:
        """Interpolated; a little before the first or after the last reading, as the nearest two go on."""
        index = min(max(bisect.bisect_right(self._times, moment), 1), len(self._times) - 1)
        t0, t1 = self._times[index - 1], self._times[index]
        e0, e1 = self._joules[index - 1], self._joules[index]
        return e0 + (e1 - e0) * (moment - t0) / (t1 - t0)
