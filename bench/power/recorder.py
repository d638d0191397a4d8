"""Reads all sensors at their own rates while a suite runs, and remembers what happened when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..condition import Run, run_command
from .hwmon import find_hwmon
from .meter import MeterFile
from .pmic import find_pmic
from .rapl import find_rapl
from .rate import detect_interval
from .sensor import Reading, Sensor
from .supply import find_supplies
from .trace import Trace

NO_SENSOR = "this machine has no power sensor that Linux shows; an external meter's CSV can be given"
_JUMP_S = 0.5


@dataclass(frozen=True)
class Span:
    """``count`` things of the kind ``stage`` happened between two monotonic times."""

    stage: str
    start: float
    end: float
    count: float = 1

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Source:
    """One sensor or meter with its readings."""

    name: str
    covers: str
    trace: Trace


class Recorder:
    """A context around a suite: sensors are read on a thread, and ``span()`` marks what happens.

    ``root`` is where ``sys`` is read. Sensors are looked for and their rates watched by :meth:`start`, which takes up
    to 1.5 s a sensor. ``clock`` is monotonic, ``wall`` is what CSV files of a meter are written in.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        meter: MeterFile | None = None,
        run: Run = run_command,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root
        self._meter = meter
        self._run = run
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._sensors: list[tuple[Sensor, Trace]] = []
        self._due: list[float] = []
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._first_offset = 0.0
        self.spans: list[Span] = []
        self.reasons: list[str] = []

    def look(self) -> None:
        """Find the sensors and their rates."""
        for found in (
            find_hwmon(self._root),
            find_pmic(self._run),
            find_rapl(self._root),
            find_supplies(self._root),
        ):
            self.reasons += found.reasons
            for sensor in found.sensors:
                interval = sensor.interval_s or detect_interval(self._value_of(sensor), self._clock, self._sleep)
                self._sensors.append((sensor, Trace(interval)))
        self._due = [self._clock()] * len(self._sensors)
        self._first_offset = self._wall() - self._clock()

    def step(self) -> float:
        """Read every sensor whose time has come; the time of the next reading."""
        for index, (sensor, trace) in enumerate(self._sensors):
            now = self._clock()
            if now < self._due[index]:
                continue
            begin = now
            reading = sensor.read()
            at = (begin + self._clock()) / 2
            _store(trace, at, reading)
            self._due[index] = max(self._due[index] + trace.interval_s, now)
        return min(self._due, default=self._clock() + 1.0)

    def start(self) -> None:
        self.look()
        if self._sensors:
            self._thread = threading.Thread(target=self._work, name="power", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Take a last reading of every sensor, so that the last span is covered."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None
            self._due = [0.0] * len(self._due)
            self.step()

    @contextmanager
    def span(self, stage: str, count: float = 1) -> Iterator[None]:
        """Mark the block as ``count`` things of the kind ``stage``; a block that raises is not marked."""
        start = self._clock()
        yield
        self.spans.append(Span(stage, start, self._clock(), count))

    def mark(self, stage: str, start: float, end: float, count: float = 1) -> None:
        """Like :meth:`span`, for times that are known only afterwards."""
        self.spans.append(Span(stage, start, end, count))

    @property
    def wall_minus_monotonic(self) -> float:
        """Now: after a clock without battery was set by the network, the late value is the right one."""
        return self._wall() - self._clock()

    @property
    def clock_jump_s(self) -> float:
        """How far the wall clock was set during the run; 0 for the drift of any clock."""
        jump = self.wall_minus_monotonic - self._first_offset
        return jump if abs(jump) > _JUMP_S else 0.0

    def sources(self) -> list[Source]:
        """Everything that gave readings, the meter's file among them."""
        found = [Source(sensor.name, sensor.covers, trace) for sensor, trace in self._sensors]
        if self._meter is not None:
            trace = self._meter.trace(self.wall_minus_monotonic)
            found.append(Source(self._meter.name, self._meter.covers, trace))
        return found

    def spans_to_json(self) -> list[dict[str, Any]]:
        """The spans in wall-clock seconds, so that a meter's file can be merged later."""
        offset = self.wall_minus_monotonic
        return [
            {
                "stage": span.stage,
                "start": round(span.start + offset, 4),
                "end": round(span.end + offset, 4),
                "count": span.count,
            }
            for span in self.spans
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _value_of(self, sensor: Sensor) -> Callable[[], float | None]:
        def value() -> float | None:
            reading = sensor.read()
            return None if reading is None else reading.watts

        return value

    def _work(self) -> None:
        while not self._ending.is_set():
            wait_s = self.step() - self._clock()
            self._ending.wait(max(wait_s, 0.001))


def _store(trace: Trace, at: float, reading: Reading | None) -> None:
    if reading is None:
        trace.add_gap(at)
    elif reading.watts is not None:
        trace.add_power(at, reading.watts)
    elif reading.joules is not None:
        trace.add_energy(at, reading.joules)
