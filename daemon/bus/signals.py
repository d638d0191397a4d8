"""Which connection hears which event, and as which signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..agent.run import Event
from .results import details, to_variants

Emit = Callable[[str, str, Sequence[Any], str], None]
"""Sends a signal of Agent1 to one receiver: member, signature, body, unique name."""


class Signals:
    """Sends each event to the app whose run it is and to the subscribers who may hear it.

    A signal that holds words goes to privileged subscribers only; see Subscribe in org.famulus.Agent1.xml.
    """

    def __init__(self, emit: Emit, owner_of: Callable[[Event], str]) -> None:
        self._emit = emit
        self._owner_of = owner_of
        self._privileged: dict[str, bool] = {}

    def subscribe(self, name: str, *, privileged: bool) -> None:
        self._privileged[name] = privileged

    def unsubscribe(self, name: str) -> bool:
        """Whether it was a subscriber."""
        return self._privileged.pop(name, None) is not None

    def clear(self) -> None:
        self._privileged.clear()

    def publish(self, event: Event) -> None:
        """Send the event as its signal; the voice loop's state is a property and no signal."""
        data, run = event.data, event.run
        wordless = not event.owner
        match event.kind:
            case "wake":
                body = [str(data.get("keyword", "")), float(data.get("score", 0))]
                self._send("WakeDetected", "sd", body, event, wordless)
            case "stage":
                rest = details({key: value for key, value in data.items() if key != "stage"})
                self._send("Stage", "ssa{sv}", [run, str(data.get("stage", "")), rest], event, wordless)
            case "transcript":
                self._send("Transcript", "ssb", [run, str(data.get("text", "")), bool(data.get("final", True))], event)
            case "token":
                self._send("Token", "ss", [run, str(data.get("text", ""))], event)
            case "finished":
                self._send("Finished", "ssa{sv}", [run, str(data.get("status", "")), to_variants(data)], event)
            case "state":
                pass

    def timer_fired(self, timer_id: str, label: str, owner: str) -> None:
        """Tell that a countdown ended, to the app that set it (``""``: a person did) and to subscribers."""
        for name in self._receivers(owner, wordless=False):
            self._emit("TimerFired", "ss", [timer_id, label], name)

    def _send(self, member: str, signature: str, body: list[Any], event: Event, wordless: bool = False) -> None:
        for name in self._receivers(self._owner_of(event), wordless):
            self._emit(member, signature, body, name)

    def _receivers(self, owner: str, wordless: bool) -> list[str]:
        hearing = [name for name, privileged in self._privileged.items() if (privileged or wordless) and name != owner]
        return [owner, *hearing] if owner else hearing
