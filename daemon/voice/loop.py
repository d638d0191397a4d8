"""A voice turn: wake word, listening, transcribing, thinking, and back to listening for the wake word."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...core.errors import Busy, Failed, FamulusError, NotFound, TimedOut
from ...core.texts import Texts
from ...engines.protocols import Detection, Transcript
from ..agent.run import Event, Listener, RunResult, Status, Utterance
from ..settings import Listen
from .capture import Capture
from .endpoint import Endpointer

_LOG = logging.getLogger(__name__)

TEXTS = Texts(Path(__file__).with_name("texts.toml"))
T = TypeVar("T")
State = Literal["idle", "listening", "transcribing", "thinking"]

_SLACK_S = 2.0  # the endpointer decides before this; it is only for one that does not
_STATUS: dict[str, Status] = {"timed_out": "timed_out", "cancelled": "cancelled"}  # by the error's code
_CANCEL_S = 1.0  # a cancelled run gets this long to say how it ended


@dataclass(eq=False)
class _Turn:
    run: str
    owner: str
    session: str
    language: str
    state: State = "listening"
    audio: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)  # None: the microphone is lost
    task: asyncio.Task[None] | None = None
    finished: bool = False
    voice_ms: dict[str, float] = field(default_factory=dict)


class VoiceLoop:
    """Runs voice turns; every state has a deadline, and every way out of one leads back to the wake word.

    - ``endpointer_factory`` makes an endpointer for one sentence; it must be quick.
    - ``transcribe`` takes 16 kHz mono s16le; it has ``transcribe_s`` seconds.
    - ``is_known`` tells whether a text, in a language, is a sentence that means something; it must be quick.
    - ``dispatch`` takes the utterance and the run id; it has ``think_s`` seconds, and its task is cancelled when
      the run is. A dispatch that returns has published ``finished``, one that raises has not.
    - ``publish`` gets the events of ``daemon.agent.run``; ``prefetch`` is called when a turn begins.

    The wake word is live again while a run is thinking, so that "stop" can be said: the new words go to
    ``dispatch`` beside the run, which decides what waits and what stops it.
    """

    def __init__(
        self,
        capture: Capture,
        *,
        endpointer_factory: Callable[[], Endpointer],
        transcribe: Callable[[bytes], Awaitable[Transcript]],
        is_known: Callable[[str, str], Awaitable[bool]],
        dispatch: Callable[[Utterance, str], Awaitable[RunResult]],
        publish: Listener,
        prefetch: Callable[[], None],
        new_run_id: Callable[[], str],
        settings: Listen,
        language: str = "auto",
        transcribe_s: float = 15.0,
        think_s: float = 180.0,
        starvation_s: float = 1.0,
    ) -> None:
        self._capture = capture
        self._endpointer_factory = endpointer_factory
        self._transcribe = transcribe
        self._is_known = is_known
        self._dispatch = dispatch
        self._publish = publish
        self._prefetch = prefetch
        self._new_run_id = new_run_id
        self._language = language
        self._listen_s = settings.start_s + settings.max_s + _SLACK_S
        self._transcribe_s = transcribe_s
        self._think_s = think_s
        self._starvation_s = starvation_s
        self._hearing: _Turn | None = None  # listening or transcribing
        self._thinking: set[_Turn] = set()
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._state: State = "idle"
        self._running = False

    @property
    def state(self) -> State:
        """What the person should see: hearing comes before thinking."""
        return self._state

    async def start(self) -> None:
        """Start to listen for the wake word."""
        self._running = True
        self._capture.start(self)
        self._capture.arm()

    async def stop(self) -> None:
        """Cancel what runs and end the capture thread; two seconds at most."""
        self._running = False
        self.cancel()
        turns = self._turns()
        await asyncio.gather(
            self._capture.stop(),
            asyncio.wait({turn.task for turn in turns if turn.task}, timeout=2 * _CANCEL_S) if turns else _nothing(),
        )

    def listen(self, *, owner: str = "", session: str = "", language: str = "") -> str:
        """Push to talk: listen at once, without a wake word; returns the run's id.

        Raises ``Busy`` while another sentence is being heard, ``NotFound`` without a working microphone.
        """
        if not self._running:
            raise Busy("The voice loop does not run; try again once the daemon is ready.")
        if self._hearing is not None:
            raise Busy("Another sentence is being heard; wait until it ends.")
        health = self._capture.health()
        if health.state == "off":
            raise NotFound("No microphone is set up; set audio.source.")
        if health.state == "mic_lost":
            raise NotFound(health.message)
        run = self._new_run_id()
        self._capture.listen()
        self._begin(_Turn(run, owner, session, language or self._language))
        return run

    def cancel(self, run: str = "", spare: str = "") -> bool:
        """End a turn in any state, or all of them but ``spare``; False when there is no such turn."""
        turns = [turn for turn in self._turns() if run in ("", turn.run) and turn.run != spare]
        for turn in turns:
            if turn.task is not None:
                turn.task.cancel()
        return bool(turns)

    def on_wake(self, detection: Detection) -> None:
        """The capture thread heard a wake word; it sends the audio after it by itself."""
        if not self._running or self._hearing is not None:
            return
        try:
            run = self._new_run_id()
        except Exception:
            _LOG.exception("No run could be started.")
            self._capture.arm()
            return
        turn = _Turn(run, "", "", self._language)
        _LOG.info("Run %s: heard %s (%.2f).", run, detection.keyword, detection.score, extra={"RUN": run})
        data = {"keyword": detection.keyword, "score": round(detection.score, 4)}
        self._emit("wake", turn, data)
        self._begin(turn)

    def on_audio(self, pcm: bytes) -> None:
        if self._hearing is not None:
            self._hearing.audio.put_nowait(pcm)

    def on_lost(self, message: str) -> None:
        if self._hearing is not None:
            self._hearing.audio.put_nowait(None)

    def _turns(self) -> list[_Turn]:
        return [turn for turn in (self._hearing, *self._thinking) if turn is not None]

    def _begin(self, turn: _Turn) -> None:
        self._hearing = turn
        self._show()
        try:
            self._prefetch()
        except Exception:
            _LOG.exception("The models could not be asked to load early.")
        turn.task = asyncio.create_task(self._run(turn), name=f"voice-turn-{turn.run}")
        turn.task.add_done_callback(lambda _: self._leave(turn))

    async def _run(self, turn: _Turn) -> None:
        try:
            text = await self._hear(turn)
            if text:
                await self._think(turn, text)
            else:
                self._finish(turn, "cancelled")
        except asyncio.CancelledError:
            self._finish(turn, "cancelled", error="cancelled")
        except FamulusError as error:
            status: Status = _STATUS.get(error.code, "failed")
            _LOG.warning("Run %s %s: %s", turn.run, status, error.message, extra={"RUN": turn.run})
            self._finish(turn, status, error.message, error.code)
        except Exception:
            _LOG.exception("Run %s failed.", turn.run, extra={"RUN": turn.run})
            self._finish(turn, "failed", TEXTS.get("went_wrong", turn.language), Failed.code)

    async def _hear(self, turn: _Turn) -> str:
        """The words, ``""`` for none."""
        endpointer = await self._record(turn)
        self._capture.mute()
        if not endpointer.segment:
            return ""
        turn.state = "transcribing"
        self._show()
        began = time.monotonic()
        text = await self._bounded(
            self._words(endpointer, turn.language),
            self._transcribe_s,
            TEXTS.get("hearing_took_too_long", turn.language),
        )
        turn.voice_ms["transcribe"] = _ms(time.monotonic() - began)
        _LOG.debug("Run %s heard: %s", turn.run, text)
        if text:
            self._emit("transcript", turn, {"text": text, "final": True})
        return text

    async def _words(self, endpointer: Endpointer, language: str) -> str:
        """What was said; where no sentence is known for it, another cut of the audio may have the words right."""
        first, second = endpointer.segment, endpointer.second_segment
        text = (await self._transcribe(first)).text.strip()
        if text and second != first and not await self._is_known(text, language):
            again = (await self._transcribe(second)).text.strip()
            if again and await self._is_known(again, language):
                return again
        return text

    async def _record(self, turn: _Turn) -> Endpointer:
        """One sentence, heard to its end."""
        endpointer = self._endpointer_factory()
        deadline = time.monotonic() + self._listen_s
        decision = "waiting"
        while decision in ("waiting", "speaking"):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                endpointer.cut()
                break
            try:
                async with asyncio.timeout(min(left_s, self._starvation_s)):
                    block = await turn.audio.get()
            except TimeoutError:
                if left_s <= self._starvation_s or not turn.audio.empty():
                    continue  # a deadline of ours, or this loop was held up and the audio is there
                block = None
            if block is None:
                raise Failed(TEXTS.get("microphone_stopped", turn.language))
            decision = endpointer.feed(block)
        turn.voice_ms["listen"] = _ms(endpointer.speech_end_s)
        return endpointer

    async def _think(self, turn: _Turn, text: str) -> None:
        turn.state = "thinking"
        self._thinking.add(turn)
        self._leave_hearing(turn)
        utterance = Utterance(text, "voice", turn.language, turn.session, turn.owner, dict(turn.voice_ms))
        run = asyncio.ensure_future(self._dispatch(utterance, turn.run))
        try:
            await self._bounded(run, self._think_s, TEXTS.get("answer_took_too_long", turn.language))
        except (asyncio.CancelledError, TimedOut):
            if not await _ended_well(run):
                raise
        turn.finished = True  # published by the dispatch

    async def _bounded(self, work: Awaitable[T], timeout_s: float, too_late: str) -> T:
        """Wait for ``work`` no longer than this, also when it ignores being cancelled."""
        future = asyncio.ensure_future(work)
        try:
            await asyncio.wait({future}, timeout=timeout_s)
        finally:
            if not future.done():
                future.cancel()
                self._abandoned.add(future)
                future.add_done_callback(self._forget)
        if not future.done():
            raise TimedOut(too_late)
        return future.result()

    def _forget(self, future: asyncio.Future[Any]) -> None:
        self._abandoned.discard(future)
        if not future.cancelled() and future.exception() is not None:
            _LOG.debug("What nobody waited for any more failed.", exc_info=future.exception())

    def _finish(self, turn: _Turn, status: Status, reply: str = "", error: str = "") -> None:
        turn.finished = True
        result = RunResult(turn.run, status, reply, error=error, voice_ms=dict(turn.voice_ms))
        self._emit("finished", turn, result.to_dict())

    def _leave(self, turn: _Turn) -> None:
        if not turn.finished:  # a task that is cancelled before its first step runs no code of its own
            self._finish(turn, "cancelled", error="cancelled")
        self._thinking.discard(turn)
        self._leave_hearing(turn)

    def _leave_hearing(self, turn: _Turn) -> None:
        if self._hearing is turn:
            self._hearing = None
            if self._running:
                self._capture.arm()
        self._show()

    def _show(self) -> None:
        shown = self._hearing or next(iter(self._thinking), None)
        state: State = shown.state if shown is not None else "idle"
        if state != self._state:
            self._state = state
            self._emit("state", shown, {"state": state})

    def _emit(self, kind: Any, turn: _Turn | None, data: dict[str, Any]) -> None:
        try:
            self._publish(Event(kind, turn.run if turn else "", turn.owner if turn else "", data))
        except Exception:
            _LOG.exception("A listener failed on a voice event.")


async def _ended_well(run: asyncio.Future[Any]) -> bool:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait({run}, timeout=_CANCEL_S)
    return run.done() and not run.cancelled() and run.exception() is None


async def _nothing() -> None:
    pass


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
