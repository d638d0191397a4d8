"""What a Prometheus server may read of the service: counts and states, never a word that a person said.

Source of the form: Prometheus text exposition format 0.0.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .agent.run import Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SLOT_STATES = ("unloaded", "loading", "ready", "busy", "unloading", "failed")
_EAR_STATES = ("ok", "starting", "mic_lost", "deaf", "off")

_Sample = tuple[Mapping[str, str], float]


class Metrics:
    """Counts the agent's events; ``status`` is what ``App.status`` gives, asked at each reading."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status
        self._runs: Counter[tuple[str, str]] = Counter()
        self._wakes = 0
        self._stages: dict[str, _Histogram] = {}

    def on_event(self, event: Event) -> None:
        """A listener of the agent."""
        if event.kind == "wake":
            self._wakes += 1
        elif event.kind == "finished":
            data = event.data
            self._runs[data.get("status", ""), data.get("decided_by", "")] += 1
            for stage, milliseconds in {**data.get("voice_ms", {}), **data.get("stages_ms", {})}.items():
                self._stages.setdefault(stage, _Histogram()).add(milliseconds / 1000)

    def text(self) -> str:
        """All metrics."""
        return "".join(f"{line}\n" for line in (*self._counted(), *_seen(self._status())))

    def _counted(self) -> Iterator[str]:
        runs = [({"status": status, "decided_by": by}, count) for (status, by), count in sorted(self._runs.items())]
        yield from _family("famulus_runs_total", "counter", "Runs that ended.", runs)
        yield from _family("famulus_wakes_total", "counter", "Wake words heard.", [({}, self._wakes)])
        yield from _head("famulus_stage_seconds", "histogram", "Time in each stage of a run.")
        for stage, histogram in sorted(self._stages.items()):
            yield from histogram.lines("famulus_stage_seconds", stage)


class _Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, stage: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*BUCKETS_S, "+Inf"), self._counts, strict=True):
            total += count
            yield _line(f"{name}_bucket", {"stage": stage, "le": str(bound)}, total)
        yield _line(f"{name}_sum", {"stage": stage}, self._sum)
        yield _line(f"{name}_count", {"stage": stage}, total)


def _seen(status: Mapping[str, Any]) -> Iterator[str]:
    """What the state of all parts tells, at this moment."""
    version = [({"version": str(status.get("version", ""))}, 1.0)]
    yield from _family("famulus_info", "gauge", "The version that runs.", version)
    yield from _gauge("famulus_uptime_seconds", "Time since the start.", status.get("uptime_s"))
    yield from _gauge("famulus_resident_bytes", "Memory of the daemon without models.", _bytes(status, "memory_mb"))
    available = _bytes(status, "memory_available_mb")
    yield from _gauge("famulus_memory_available_bytes", "Memory that programs can still take.", available)
    yield from _gauge("famulus_temperature_celsius", "Of the processor.", status.get("temperature_c"))
    flags = [({"flag": str(flag)}, 1.0) for flag in status.get("throttled", ())]
    yield from _family("famulus_throttled", "gauge", "What holds the board back, or has (..._seen).", flags)

    ear, health = status.get("microphone", {}), status.get("health", {})
    states = [({"state": state}, float(state == health.get("microphone"))) for state in _EAR_STATES]
    yield from _family("famulus_capture_state", "gauge", "1 for the state the microphone is in.", states)
    wake_word = float(health.get("wake_word") == "ok")
    yield from _gauge("famulus_wake_word_ready", "1 while the wake word is listened for.", wake_word)
    yield from _gauge("famulus_capture_level_dbfs", "Level of the sound.", ear.get("level_dbfs"))
    yield from _gauge("famulus_capture_frame_age_seconds", "Time since the last sound.", ear.get("frame_age_s"))
    losses = float(ear.get("losses", 0))
    yield from _family("famulus_capture_losses_total", "counter", "Times the microphone was lost.", [({}, losses)])

    slots = [({"slot": str(slot["name"])}, slot) for slot in status.get("slots", ())]
    states = [
        ({**label, "state": state}, float(state == slot["state"])) for label, slot in slots for state in _SLOT_STATES
    ]
    yield from _family("famulus_slot_state", "gauge", "1 for the state the model is in.", states)
    memory = [(label, _bytes(slot, "memory_mb") or 0) for label, slot in slots]
    yield from _family("famulus_slot_resident_bytes", "gauge", "Memory of the model's worker.", memory)
    loads = [(label, slot["loads"]) for label, slot in slots]
    yield from _family("famulus_slot_loads_total", "counter", "Times the model was loaded.", loads)
    last = [(label, slot["last_load_s"]) for label, slot in slots if slot["loads"]]
    yield from _family("famulus_slot_last_load_seconds", "gauge", "How long the last load took.", last)
    queue = [(label, slot["queue"]) for label, slot in slots]
    yield from _family("famulus_slot_queue", "gauge", "Requests that wait for the model.", queue)


def _bytes(values: Mapping[str, Any], key: str) -> float | None:
    megabytes = values.get(key)
    return None if megabytes is None else float(megabytes) * 1e6


def _gauge(name: str, about: str, value: float | None) -> Iterator[str]:
    return _family(name, "gauge", about, [] if value is None else [({}, value)])


def _family(name: str, kind: str, about: str, samples: Iterable[_Sample]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for labels, value in samples:
        yield _line(name, labels, value)


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{f'{{{pairs}}}' if pairs else ''} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
