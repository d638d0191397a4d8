"""One recording played to the daemon, and everything that came of it, by the daemon's own signals."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from ..client.events import Event, Reply
from ..core.errors import FamulusError, TimedOut
from .recordings import Calls, Recording

SETTLE_S = 1.5
"""A wake word is heard at most so long after the last sample of a recording was played."""
TURN_S = 60.0
STAGES = ("listen", "transcribe", "intent", "select", "execute", "summarise")


@dataclass(frozen=True)
class Moment:
    """An event and its monotonic time of arrival."""

    at: float
    event: Event


class Moments:
    """All events so far, and waiting for the ones to come; ``on_event`` is called with each."""

    def __init__(self) -> None:
        self.all: list[Moment] = []
        self.on_event: Callable[[Event], None] = lambda _: None
        self._changed = asyncio.Condition()
        self._error: FamulusError | None = None

    async def collect(self, events: AsyncIterator[Event]) -> None:
        """Take ``events`` until they end; their error is raised to whoever waits."""
        try:
            async for event in events:
                self.all.append(Moment(time.monotonic(), event))
                self.on_event(event)
                async with self._changed:
                    self._changed.notify_all()
        except FamulusError as error:
            self._error = error
            async with self._changed:
                self._changed.notify_all()

    def count(self, kind: str, since: int = 0) -> int:
        return sum(moment.event.kind == kind for moment in self.all[since:])

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``holds()``; False where it did not within ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self._error is not None or holds())
        except TimeoutError:
            return False
        if self._error is not None:
            raise self._error
        return True


@dataclass(frozen=True)
class Turn:
    """What came of one recording: ``replies`` of its runs, ``stages_ms`` of the first.

    ``outcome_ms`` is from the end of speech to the outcome. None where it was not told.
    """

    recording: Recording
    keyword: str | None
    score: float | None
    transcript: str | None
    replies: tuple[Reply, ...]
    stages_ms: dict[str, float | None]
    outcome_ms: float | None

    @property
    def woke(self) -> bool:
        return self.keyword is not None

    @property
    def calls(self) -> Calls:
        """``(method, args)`` of all runs, in order."""
        return tuple(pair for reply in self.replies for pair in calls_of(reply))

    def problem(self) -> str | None:
        """What is wrong with it, measured against what the recording says and expects; None where all is right."""
        if self.recording.wake is None and (self.woke or self.replies):
            return "something happened, though the wake word is not in it"
        if self.recording.wake is not None and not self.woke:
            return "the wake word was not heard"
        if len(self.replies) > 1:
            return f"it became {len(self.replies)} runs"
        if self.recording.calls is None:
            return None
        if self.calls != self.recording.calls:
            return f"expected {show_calls(self.recording.calls)}"
        if self.calls and not self.replies[0].ok:
            return f"the run ended as {self.replies[0].status}: {self.replies[0].text}"
        return None


async def hear(
    recording: Recording, play: Callable[[Path], Awaitable[None]], moments: Moments, *, timeout_s: float = TURN_S
) -> Turn:
    """Play it and wait, by signals, until each wake word has come to its end. Raises ``TimedOut``."""
    begin = len(moments.all)

    def at_rest() -> bool:
        return moments.count("finished", begin) >= moments.count("wake", begin)

    try:
        async with asyncio.timeout(timeout_s):
            await play(recording.path)
            await moments.until(lambda: moments.count("wake", begin) > 0, SETTLE_S)
            await moments.until(at_rest, timeout_s)
    except TimeoutError:
        seen = ", ".join(moment.event.kind for moment in moments.all[begin:]) or "nothing"
        raise TimedOut(f"{recording.name} did not come to an end within {timeout_s:g} s; heard of: {seen}.") from None
    return _turn(recording, moments.all[begin:])


def calls_of(reply: Reply) -> Calls:
    """``(method, args)`` of a run."""
    return tuple((call["method"], call["args"]) for call in reply.calls)


def word_error_rate(expected: str, heard: str) -> float | None:
    """Edits per expected word, case, punctuation and numerals' style ignored; None where no word was expected."""
    wanted, found = _words(expected), _words(heard)
    if not wanted:
        return None
    row = list(range(len(found) + 1))
    for i, word in enumerate(wanted, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1] / len(wanted)


def show_calls(calls: Calls) -> str:
    """``light.on {"room": "kitchen"}``, several joined by ``+``; ``nothing`` for none."""
    return " + ".join(f"{method} {json.dumps(args, ensure_ascii=False)}" for method, args in calls) or "nothing"


def _turn(recording: Recording, moments: list[Moment]) -> Turn:
    wake = next((moment for moment in moments if moment.event.kind == "wake"), None)
    finished = [moment for moment in moments if moment.event.kind == "finished"]
    replies = tuple(moment.event.reply for moment in finished if moment.event.reply is not None)
    texts = [
        moment.event.text for moment in moments if moment.event.kind == "transcript" and moment.event.data["final"]
    ]
    stages = {**replies[0].voice_ms, **replies[0].stages_ms} if replies else {}
    outcome_ms = None
    if wake is not None and texts and finished and "listen" in stages:
        outcome_ms = (finished[0].at - wake.at) * 1000 - stages["listen"]
    return Turn(
        recording=recording,
        keyword=wake.event.data["keyword"] if wake else None,
        score=wake.event.data["score"] if wake else None,
        transcript=texts[0] if texts else None,
        replies=replies,
        stages_ms={stage: stages.get(stage) for stage in STAGES},
        outcome_ms=outcome_ms,
    )


def _words(text: str) -> list[str]:
    """Lower case, no punctuation, numbers in English words: recognisers write "30%" or "thirty per cent"."""
    from unicode_rbnf import RbnfEngine

    spell = RbnfEngine.for_language("en").format_number
    text = re.sub(r"\bper cent\b|%", " percent ", text.casefold()).replace("to-morrow", "tomorrow")
    text = re.sub(r"\d+", lambda digits: f" {spell(int(digits[0])).text} ", text)
    return "".join(char if char.isalnum() or char == "'" else " " for char in text).split()
