"""The state of all parts as JSON values: for `famulus status`, the bus's Health and the metrics. It holds no words."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from ..capabilities.registry import Registry
from ..engines.memory import mem_available, rss_of
from ..engines.pool import Pool, SlotStatus
from .agent.agent import Agent
from .agent.run import RunResult
from .board import Board
from .voice.capture import Capture, CaptureHealth
from .voice.loop import VoiceLoop

VERSION = version("famulus")
_SHOWN_RUNS = 5


class Status:
    """Looks at the parts; call it as often as you like, it takes well under a millisecond."""

    def __init__(
        self, *, capture: Capture, voice: VoiceLoop, agent: Agent, registry: Registry, pool: Pool, board: Board
    ) -> None:
        self.phase = "starting"
        """starting, ready or stopping."""
        self._capture = capture
        self._voice = voice
        self._agent = agent
        self._registry = registry
        self._pool = pool
        self._board = board
        self._started = time.monotonic()

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started

    def __call__(self) -> dict[str, Any]:
        ear = self._capture.health()
        board = self._board.reading
        available = mem_available()
        slots = self._pool.snapshot()
        return {
            "state": self._voice.state if self.phase == "ready" else self.phase,
            "mode": "local",
            "version": VERSION,
            "uptime_s": round(self.uptime_s, 1),
            "memory_mb": round(rss_of("self") / 1e6, 1),
            "memory_available_mb": None if available is None else round(available / 1e6),
            "temperature_c": None if board.temperature_c is None else round(board.temperature_c, 1),
            "throttled": list(board.throttled),
            "health": {
                "microphone": ear.state,
                "wake_word": "failed" if ear.wake_error else ear.state,
                "board": board.state,
                **{slot.name: slot.state for slot in slots},
            },
            "microphone": _microphone(ear),
            "slots": [_slot(slot) for slot in slots],
            "capabilities": {c.name: len(c.commands) for c in self._registry.capabilities()},
            "last_runs": _runs(list(self._agent.recent)[-_SHOWN_RUNS:]),
        }


def _microphone(ear: CaptureHealth) -> dict[str, Any]:
    return {
        "source": ear.source,
        "message": ear.message or ear.wake_error,
        "level_dbfs": None if ear.level_dbfs is None else round(ear.level_dbfs, 1),
        "frame_age_s": None if ear.frame_age_s is None else round(ear.frame_age_s, 2),
        "losses": ear.losses,
    }


def _slot(slot: SlotStatus) -> dict[str, Any]:
    return {
        "name": slot.name,
        "state": slot.state,
        "reason": slot.reason,
        "memory_mb": round(slot.rss_bytes / 1e6, 1),
        "expires_in_s": None if slot.expires_in_s is None else round(slot.expires_in_s, 1),
        "loads": slot.loads,
        "last_load_s": round(slot.last_load_s, 3),
        "queue": slot.queue,
    }


def _runs(results: Iterable[RunResult]) -> list[dict[str, Any]]:
    return [
        {
            "run": result.run,
            "status": result.status,
            "decided_by": result.decided_by,
            "ms": round(sum(result.stages_ms.values()), 1),
            "stages_ms": {stage: round(ms, 1) for stage, ms in {**result.voice_ms, **result.stages_ms}.items()},
        }
        for result in results
    ]
