"""What an app hears of runs: the signals of org.famulus.Agent1 as plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dbus_fast import Variant

Kind = Literal["wake", "transcript", "stage", "token", "finished", "timer"]


@dataclass(frozen=True)
class Reply:
    """How a run ended.

    ``text`` is what to say or show; ``status`` is ``done``, ``not_understood``, ``failed``, ``cancelled`` or
    ``timed_out``; each of ``calls`` is ``{"id", "method", "args", "outcome"}``; ``stages_ms`` holds milliseconds.
    """

    text: str
    status: str
    run: str = ""
    decided_by: str = ""
    error: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    stages_ms: dict[str, float] = field(default_factory=dict)
    voice_ms: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "done"


@dataclass(frozen=True)
class Event:
    """Something happened. ``run`` is ``""`` where there is none.

    ``kind`` and ``data``: ``wake`` ``{"keyword", "score"}`` · ``transcript`` ``{"text", "final"}`` · ``stage``
    ``{"stage", ...}`` · ``token`` ``{"text"}`` · ``timer`` ``{"id", "label"}`` · ``finished`` ``{}``, with ``reply``.
    """

    kind: Kind
    run: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    reply: Reply | None = None

    @property
    def text(self) -> str:
        """The words of a transcript, a token or the reply; else ``""``."""
        return self.reply.text if self.reply else str(self.data.get("text", ""))


def to_reply(text: str, result: Mapping[str, Variant]) -> Reply:
    """A reply from the ``a{sv}`` of Ask and Finished."""
    values = {key: variant.value for key, variant in result.items()}
    return Reply(
        text,
        values.get("status", ""),
        values.get("run", ""),
        values.get("decided_by", ""),
        values.get("error", ""),
        json.loads(values.get("calls", "[]")),
        values.get("stages_ms", {}),
        values.get("voice_ms", {}),
    )


def _finished(run: str, status: str, result: dict[str, Variant]) -> Event:
    reply = result.get("reply")
    return Event("finished", run, {}, to_reply(reply.value if reply else "", result))


_READERS: dict[tuple[str, str], Callable[..., Event]] = {
    ("WakeDetected", "sd"): lambda keyword, score: Event("wake", "", {"keyword": keyword, "score": score}),
    ("Transcript", "ssb"): lambda run, text, final: Event("transcript", run, {"text": text, "final": final}),
    ("Token", "ss"): lambda run, text: Event("token", run, {"text": text}),
    ("Stage", "ssa{sv}"): lambda run, stage, details: Event(
        "stage", run, {"stage": stage, **{key: variant.value for key, variant in details.items()}}
    ),
    ("Finished", "ssa{sv}"): _finished,
    ("TimerFired", "ss"): lambda timer, label: Event("timer", "", {"id": timer, "label": label}),
}


def to_event(member: str, signature: str, body: list[Any]) -> Event | None:
    """The event that a signal tells of; None for a signal that this version does not know."""
    reader = _READERS.get((member, signature))
    return reader(*body) if reader else None
