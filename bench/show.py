"""What the demo prints: plain lines, with colours where a person reads them on a terminal."""

from __future__ import annotations

import os
import textwrap
from typing import TextIO

from ..client.events import Event, Reply
from .recordings import Recording
from .turn import STAGES, Turn, calls_of, show_calls

_BOLD, _DIM, _GREEN, _RED, _CYAN = "1", "2", "32", "31", "36"
_LABEL_WIDTH = 11


class Show:
    """Prints what happens while it happens: :meth:`event` takes the daemon's events."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._terminal = out.isatty()
        self._colours = self._terminal and "NO_COLOR" not in os.environ

    def title(self, text: str) -> None:
        self._line(self._paint(_BOLD, text))

    def step(self, text: str) -> None:
        """Something is being started."""
        self._line(self._paint(_DIM, f"  .. {text}"))

    def say(self, text: str) -> None:
        self._line(text)

    def prompt(self) -> None:
        """A sentence may be typed now."""
        if self._terminal:
            self._out.write("> ")
            self._out.flush()

    def recording(self, number: str, recording: Recording) -> None:
        """A recording begins to play."""
        said = " ".join(part for part in (recording.wake, recording.text) if part)
        noise = f" ({recording.snr_db:g} dB over noise)" if recording.snr_db is not None else ""
        self._line("")
        self._line(f"{self._paint(_BOLD, number)} {recording.name}: {said!r}{noise}")

    def event(self, event: Event) -> None:
        """What the daemon tells of a run, spoken or typed."""
        match event.kind:
            case "wake":
                self._field("wake word", f"{event.data['keyword']}, score {event.data['score']:.2f}")
            case "transcript" if event.data["final"]:
                self._field("heard", repr(event.text))
            case "finished" if event.reply is not None:
                self._reply(event.reply)
            case "timer":
                self._field("timer", event.data["label"] or event.data["id"])

    def verdict(self, turn: Turn) -> None:
        """Whether a recording did what it should."""
        if problem := turn.problem():
            self._field("WRONG", self._paint(_RED, problem))
            return
        after = f", {turn.outcome_ms:.0f} ms after the end of speech" if turn.outcome_ms is not None else ""
        what = f"as expected{after}" if turn.replies or turn.woke else "nothing happened, as it should"
        self._field("ok", self._paint(_GREEN, what))

    def problem(self, text: str) -> None:
        self._line(self._paint(_RED, text))

    def log(self, lines: str) -> None:
        """The daemon's last log lines."""
        self._line("")
        self._line("The daemon's last lines:")
        self._line(textwrap.indent(lines or "(nothing)", "  | "))

    def end(self, success: bool, text: str) -> None:
        """The last line."""
        self._line("")
        self._line(self._paint(_GREEN, f"SUCCESS: {text}") if success else self._paint(_RED, f"FAILURE: {text}"))

    def _reply(self, reply: Reply) -> None:
        by = f" (decided by {reply.decided_by})" if reply.decided_by else ""
        self._field("calls", self._paint(_CYAN, show_calls(calls_of(reply))) + by)
        self._field("outcome", f"{reply.status}: {reply.text}" if reply.text else reply.status)
        times = {**reply.voice_ms, **reply.stages_ms}
        if shown := [f"{stage} {times[stage]:.1f}" for stage in STAGES if stage in times]:
            self._field("ms", self._paint(_DIM, ", ".join(shown)))

    def _field(self, label: str, text: str) -> None:
        self._line(f"    {label.ljust(_LABEL_WIDTH)} {text}")

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colours else text

    def _line(self, text: str) -> None:
        print(text, file=self._out, flush=True)
