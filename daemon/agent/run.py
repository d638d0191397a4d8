"""The words of a dispatch: Utterance, Run, RunResult, and the events a run emits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Source = Literal["voice", "bus", "cli", "channel"]
Status = Literal["done", "not_understood", "failed", "cancelled", "timed_out"]
Decider = Literal["", "stop", "sentences", "cache", "semantic", "model"]
STAGES = ("intent", "select", "execute", "summarise")


@dataclass(frozen=True)
class Utterance:
    """What a person said or typed. ``owner`` is the bus name of the app that asked, ``""`` for the device itself.

    ``voice_ms`` tells, of a spoken one, the milliseconds from the wake word to the end of speech (``listen``) and of
    transcribing (``transcribe``).
    """

    text: str
    source: Source = "bus"
    language: str = "auto"
    session: str = ""
    owner: str = ""
    voice_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CallReport:
    """One call of a run and what came of it; ``outcome`` is ``Outcome.model_dump()``."""

    id: str
    method: str
    args: dict[str, Any]
    outcome: dict[str, Any]


@dataclass(frozen=True)
class RunResult:
    """How a run ended. ``reply`` is what to say or show; ``stages_ms`` holds the milliseconds of each stage.

    ``voice_ms`` is the utterance's.
    """

    run: str
    status: Status
    reply: str
    decided_by: Decider = ""
    calls: tuple[CallReport, ...] = ()
    stages_ms: dict[str, float] = field(default_factory=dict)
    error: str = ""
    voice_ms: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; ``voice_ms`` only of a spoken run."""
        spoken = {"voice_ms": self.voice_ms} if self.voice_ms else {}
        return {
            "run": self.run,
            "status": self.status,
            "reply": self.reply,
            "decided_by": self.decided_by,
            "calls": [{"id": c.id, "method": c.method, "args": c.args, "outcome": c.outcome} for c in self.calls],
            "stages_ms": {k: round(v, 3) for k, v in self.stages_ms.items()},
            "error": self.error,
            **spoken,
        }


@dataclass(frozen=True)
class Event:
    """Something happened that a listener may show.

    ``kind`` and ``data``:

    - ``state`` ``{"state": "idle"|"listening"|"transcribing"|"thinking"|"replying"}`` (of the voice loop)
    - ``wake`` ``{"keyword": str, "score": float}``
    - ``transcript`` ``{"text": str, "final": bool}``
    - ``stage`` ``{"stage": str, ...}`` (one of STAGES, when it begins)
    - ``token`` ``{"text": str}``
    - ``finished`` ``RunResult.to_dict()``

    ``owner`` is the bus name the event belongs to, ``""`` for the device; ``run`` is ``""`` where there is none.
    """

    kind: Literal["state", "wake", "transcript", "stage", "token", "finished"]
    run: str = ""
    owner: str = ""
    data: dict[str, Any] = field(default_factory=dict)


class Listener(Protocol):
    """Takes events, in order, on the loop; must be quick and must not raise."""

    def __call__(self, event: Event, /) -> None: ...
