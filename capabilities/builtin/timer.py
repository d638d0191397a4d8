"""The timer: set, list and cancel countdowns that survive a restart."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import Busy, InvalidArguments, NotFound
from ..command import Capability, Command, Example, Outcome
from ..provider import CallContext
from ..texts import TEXTS, duration, joined
from .timer_sentences import cancel_sentences, list_sentences, set_sentences
from .timer_store import StoredTimer, TimerStore

_LOG = logging.getLogger(__name__)

MAX_SECONDS = 24 * 3600
MAX_TIMERS = 32
_MAX_LABEL = 60
# Matching spoken numbers costs memory for each number of a range (about 3 kB with both languages), and
# nobody says more than 600 minutes: longer timers are given in hours.
_MAX_SPOKEN = 600
_STOP_S = 2.0
_CLOCK_JUMP_S = 1.0


def capability() -> Capability:
    """What the timer offers."""
    label = {"type": "string", "maxLength": _MAX_LABEL, "description": "What the timer is for"}
    amount = {"type": "integer", "minimum": 0, "maximum": _MAX_SPOKEN}
    hours = {"type": "integer", "minimum": 0, "maximum": 24}
    lengths = {"hours": hours, "minutes": amount, "seconds": amount}
    everything = {"type": "boolean", "default": False, "description": "Cancel all timers"}
    return Capability(
        name="timer",
        description="Countdown timers",
        commands=(
            Command(
                name="timer.set",
                description="Start a countdown timer of hours, minutes and seconds",
                parameters=_object({**lengths, "label": label}),
                sentences=set_sentences(),
                examples=(
                    Example(text="Let me know when the tea has had five minutes", args={"minutes": 5, "label": "tea"}),
                    Example(text="茶要泡五分钟，时间到了说一声", language="zh", args={"minutes": 5, "label": "茶"}),
                ),
            ),
            Command(
                name="timer.list",
                description="Tell which timers run and how much time is left",
                sentences=list_sentences(),
                examples=(Example(text="How long until the pasta is done?"),),
            ),
            Command(
                name="timer.cancel",
                description="Cancel a running timer, by its label where there are several",
                parameters=_object({"label": label, "all": everything}),
                sentences=cancel_sentences(),
                examples=(Example(text="I don't need the egg timer any more", args={"label": "egg"}),),
            ),
        ),
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@dataclass(frozen=True)
class TimerFired:
    """A timer ended. ``late_s`` is above 0 where it ended while the daemon was off.

    ``owner`` is the bus name of the app that set it in this life of the daemon, ``""`` for a person.
    """

    id: str
    seconds: int
    label: str = ""
    language: str = "en"
    late_s: float = 0.0
    owner: str = ""

    @property
    def say(self) -> str:
        """What a person should hear, in the language that set the timer."""
        key = "timer_fired" + ("_late" if self.late_s > 0 else "") + ("_named" if self.label else "")
        return TEXTS.get(key, self.language, label=self.label, time=duration(self.seconds, self.language))


@dataclass(frozen=True)
class _Timer:
    id: str
    seconds: int
    label: str
    language: str
    ends: float  # on the loop's monotonic clock
    handle: asyncio.TimerHandle
    owner: str = ""


class TimerProvider:
    """Runs timers on the monotonic clock and keeps them in ``state_dir``.

    ``on_fired`` is called on the loop when a timer ends. ``wall`` tells the time in seconds since 1970; it is
    used only to carry timers over a restart.
    """

    def __init__(
        self, state_dir: Path, on_fired: Callable[[TimerFired], None], *, wall: Callable[[], float] = time.time
    ) -> None:
        self._store = TimerStore(state_dir)
        self._on_fired = on_fired
        self._wall = wall
        self._timers: dict[str, _Timer] = {}
        self._changed = False
        self._saving: asyncio.Task[None] | None = None
        self._saved_offset = 0.0

    async def start(self) -> None:
        """Take up the timers of an earlier life; one that ended meanwhile is reported late, once."""
        stored = await asyncio.to_thread(self._store.load)
        late = False
        for timer in stored[:MAX_TIMERS]:
            # A clock that went back (no battery-backed clock) must not make a timer longer than it was.
            left = min(timer.due - self._wall(), timer.seconds)
            if left > 0:
                self._begin(timer.id, timer.seconds, timer.label, timer.language, left=left)
            else:
                late = True
                self._report(TimerFired(timer.id, timer.seconds, timer.label, timer.language, -left or 0.001))
        if late:
            await self._save()

    async def stop(self) -> None:
        """End all countdowns and leave them on disk."""
        for timer in self._timers.values():
            timer.handle.cancel()
        if self._timers and abs(self._offset() - self._saved_offset) > _CLOCK_JUMP_S:
            self._save_soon()  # the clock was set since: what is on disk would end at the wrong time
        if self._saving is not None:
            await asyncio.wait({self._saving}, timeout=_STOP_S)

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        """``data`` holds the timers concerned: ``{"id", "label", "seconds", "remaining_s"}``."""
        match command:
            case "timer.set":
                return await self._set(args, context)
            case "timer.list":
                return self._list(context.language)
            case "timer.cancel":
                return await self._cancel(args, context.language)
        raise NotFound(f"The timer has no command {command}.")

    async def cancel(self, call_id: str) -> None:
        """Calls end at once; only the disk may take its time, and it is left to finish."""

    async def _set(self, args: dict[str, Any], context: CallContext) -> Outcome:
        language = context.language
        seconds = args.get("hours", 0) * 3600 + args.get("minutes", 0) * 60 + args.get("seconds", 0)
        if seconds <= 0:
            raise InvalidArguments(TEXTS.get("timer_no_time", language))
        if seconds > MAX_SECONDS:
            raise InvalidArguments(TEXTS.get("timer_too_long", language))
        if len(self._timers) >= MAX_TIMERS:
            raise Busy(TEXTS.get("timer_too_many", language, count=len(self._timers)))
        label = args.get("label", "").strip()
        timer = self._begin(secrets.token_hex(4), seconds, label, language, left=seconds, owner=context.owner)
        await self._save()
        key = "timer_set_named" if label else "timer_set"
        words = TEXTS.get(key, language, label=_capitalised(label), time=duration(seconds, language))
        return Outcome(data=self._data(timer), say=words)

    def _list(self, language: str) -> Outcome:
        timers = self._in_order()
        words = [
            TEXTS.get(
                "timer_left_named" if timer.label or len(timers) > 1 else "timer_left",
                language,
                label=_capitalised(_name(timer, language)),
                time=duration(self._left(timer), language),
            )
            for timer in timers
        ]
        say = ("" if language == "zh" else " ").join(words) or TEXTS.get("timer_none", language)
        return Outcome(data=[self._data(timer) for timer in timers], say=say)

    async def _cancel(self, args: dict[str, Any], language: str) -> Outcome:
        timers = self._in_order()
        label = args.get("label", "").strip()
        if label:
            chosen = [timer for timer in timers if _comparable(label) in _names(timer)]
            if not chosen and timers:
                raise NotFound(TEXTS.get("timer_unknown", language, label=label))
        else:
            chosen = timers if args.get("all") or len(timers) == 1 else []
        if not timers:
            return Outcome(data=[], say=TEXTS.get("timer_none", language))
        if not chosen:
            names = joined([_name(timer, language) for timer in timers], language)
            return Outcome(data=[], say=TEXTS.get("timer_which", language, count=len(timers), timers=names))
        data = [self._data(timer) for timer in chosen]
        for timer in chosen:
            timer.handle.cancel()
            del self._timers[timer.id]
        await self._save()
        key = "timer_cancelled" if len(chosen) == 1 else "timers_cancelled"
        return Outcome(data=data, say=TEXTS.get(key, language, count=len(chosen)))

    def _begin(self, timer_id: str, seconds: int, label: str, language: str, *, left: float, owner: str = "") -> _Timer:
        loop = asyncio.get_running_loop()
        ends = loop.time() + left
        handle = loop.call_at(ends, self._end, timer_id)
        timer = _Timer(timer_id, seconds, label, language, ends, handle, owner)
        self._timers[timer_id] = timer
        return timer

    def _end(self, timer_id: str) -> None:
        timer = self._timers.pop(timer_id)
        self._report(TimerFired(timer.id, timer.seconds, timer.label, timer.language, owner=timer.owner))
        self._save_soon()

    def _report(self, fired: TimerFired) -> None:
        try:
            self._on_fired(fired)
        except Exception:
            _LOG.exception("a timer ended, and telling so failed")

    def _in_order(self) -> list[_Timer]:
        return sorted(self._timers.values(), key=lambda timer: timer.ends)

    def _left(self, timer: _Timer) -> int:
        return max(0, math.ceil(timer.ends - asyncio.get_running_loop().time()))

    def _data(self, timer: _Timer) -> dict[str, Any]:
        return {"id": timer.id, "label": timer.label, "seconds": timer.seconds, "remaining_s": self._left(timer)}

    def _offset(self) -> float:
        """Seconds from the monotonic clock to the wall clock; it changes only where the clock is set."""
        return self._wall() - asyncio.get_running_loop().time()

    async def _save(self) -> None:
        await asyncio.shield(self._save_soon())

    def _save_soon(self) -> asyncio.Task[None]:
        """One writer at a time; changes while it writes are written together after it."""
        self._changed = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._write(), name="save timers")
        return self._saving

    async def _write(self) -> None:
        while self._changed:
            self._changed = False
            self._saved_offset = offset = self._offset()
            timers = tuple(
                StoredTimer(id=t.id, seconds=t.seconds, due=t.ends + offset, label=t.label, language=t.language)
                for t in self._timers.values()
            )
            await asyncio.to_thread(self._store.save, timers)


def _name(timer: _Timer, language: str) -> str:
    if timer.label:
        return TEXTS.get("timer_label", language, label=timer.label)
    return TEXTS.get("timer_name", language, time=duration(timer.seconds, language))


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _names(timer: _Timer) -> Iterable[str]:
    return {_comparable(timer.label), *(_comparable(duration(timer.seconds, language)) for language in ("en", "zh"))}


def _comparable(name: str) -> str:
    """A label without case, hyphens and plurals: "5-minute" is found for "5 minutes"."""
    return " ".join(word.removesuffix("s") for word in name.casefold().replace("-", " ").split() if word != "the")
