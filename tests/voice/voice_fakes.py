"""A microphone, a wake word and a speech detector that follow a script, and a recorder of what the loop published."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from famulus.daemon.agent.run import Event, RunResult, Utterance
from famulus.daemon.settings import Listen
from famulus.daemon.voice.capture import Capture
from famulus.daemon.voice.endpoint import Endpointer
from famulus.daemon.voice.loop import VoiceLoop
from famulus.daemon.voice.source import BLOCK_SAMPLES, SourceLost
from famulus.engines.protocols import Detection, Transcript

AUDIO = Path(__file__).parent.parent / "data" / "audio"
WORDS = Path(__file__).parent.parent / "data" / "voice"
MANIFEST: dict[str, dict[str, Any]] = json.loads((AUDIO / "manifest.json").read_text(encoding="utf-8"))
HUSH = b"\x01\x00" * BLOCK_SAMPLES  # a quiet room, not digital silence
SPEECH = b"\x00\x20" * BLOCK_SAMPLES
WAKE = b"\x05\x00" * BLOCK_SAMPLES


class ScriptedSource:
    """Gives what the test says, then a quiet room, hundreds of times faster than a clock would."""

    def __init__(self, *, idle: bytes = HUSH, pace_s: float = 0.0005) -> None:
        self.script: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self.idle = idle
        self.pace_s = pace_s
        self.has_noise_floor = True
        self.open_errors: list[Exception] = []
        self.opened = 0
        self.frozen = threading.Event()
        self._closed = threading.Event()

    def say(self, *blocks: bytes | Exception) -> None:
        for block in blocks:
            self.script.put(block)

    def open(self) -> None:
        if self.open_errors:
            raise self.open_errors.pop(0)
        self.opened += 1
        self._closed.clear()

    def read(self) -> bytes:
        if self.frozen.is_set():
            self._closed.wait(5)
        if self._closed.is_set():
            raise SourceLost("The scripted source was closed.")
        try:
            block = self.script.get(timeout=self.pace_s)
        except queue.Empty:
            return self.idle
        if isinstance(block, Exception):
            raise block
        return block

    def close(self) -> None:
        self._closed.set()

    def describe(self) -> str:
        return "a script"


class ScriptedSpotter:
    """Fires on ``WAKE``; ``lag_samples`` and the exceptions to raise are the test's."""

    keywords = ("hey_jarvis",)

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.lag_samples = 0
        self.resets = 0

    def process(self, pcm: bytes) -> Detection | None:
        if self.errors:
            raise self.errors.pop(0)
        return Detection("hey_jarvis", 0.97, self.lag_samples) if pcm == WAKE else None

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None: ...


class LoudnessDetector:
    """Takes what is loud for speech."""

    frame_samples = 512

    def __init__(self) -> None:
        self.error: Exception | None = None

    def process(self, frame: bytes) -> float:
        if self.error is not None:
            raise self.error
        return 0.9 if frame[1] >= 0x10 else 0.1

    def reset(self) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """Everything the loop published, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    @property
    def states(self) -> list[str]:
        return [event.data["state"] for event in self.of("state")]

    async def until(self, condition: Callable[[], object], timeout_s: float = 10) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def finished(self, count: int = 1, timeout_s: float = 10) -> Event:
        """The ``count``-th finished event, once the loop is idle again."""
        await self.until(lambda: len(self.of("finished")) >= count and self.states[-1] == "idle", timeout_s)
        return self.of("finished")[count - 1]


class Room:
    """A voice loop among scripted collaborators; each may be replaced before :meth:`start`."""

    def __init__(self, **settings: Any) -> None:
        self.source: Any = ScriptedSource()
        self.spotter: Any = ScriptedSpotter()
        self.make_spotter: Callable[[], Any] = lambda: self.spotter
        self.vad: Any = LoudnessDetector()
        self.settings = Listen(**settings)
        self.events = Recorder()
        self.segments: list[bytes] = []
        self.utterances: list[tuple[Utterance, str]] = []
        self.prefetched = 0
        self.runs = 0
        self.texts: list[str] = []
        self.transcribe: Callable[[bytes], Awaitable[Transcript]] = self._transcribe
        self.known: Callable[[str], bool] = lambda text: True
        self.dispatch: Callable[[Utterance, str], Awaitable[RunResult]] = self._dispatch
        self.capture_options: dict[str, Any] = {"refractory_s": 0.0}
        self.options: dict[str, Any] = {}
        self.loop: VoiceLoop
        self.capture: Capture

    async def start(self) -> None:
        self.capture = Capture(self.source, self.make_spotter, **self.capture_options)
        collaborators: dict[str, Any] = {
            "endpointer_factory": self.endpointer,
            "transcribe": self.transcribe,
            "is_known": self._is_known,
            "dispatch": self.dispatch,
            "publish": self.events,
            "prefetch": self._prefetch,
            "new_run_id": self._new_run_id,
            "settings": self.settings,
        }
        self.loop = VoiceLoop(self.capture, **(collaborators | self.options))
        await self.loop.start()

    def endpointer(self) -> Endpointer:
        listen = self.settings
        return Endpointer(
            self.vad,
            start_s=listen.start_s,
            silence_s=listen.silence_s,
            max_s=listen.max_s,
            threshold=listen.threshold,
        )

    def ask(self, blocks: int = 6) -> None:
        """Someone says the wake word and a sentence."""
        self.source.say(WAKE, HUSH, HUSH, *[SPEECH] * blocks)

    async def _transcribe(self, pcm: bytes) -> Transcript:
        self.segments.append(pcm)
        return Transcript(self.texts.pop(0) if self.texts else "what time is it", len(pcm) / 32_000, 0.0)

    async def _is_known(self, text: str, language: str) -> bool:
        return self.known(text)

    async def _dispatch(self, utterance: Utterance, run: str) -> RunResult:
        self.utterances.append((utterance, run))
        return self.publish_result(RunResult(run, "done", "It is noon."))

    def publish_result(self, result: RunResult) -> RunResult:
        self.events(Event("finished", result.run, "", result.to_dict()))
        return result

    def _prefetch(self) -> None:
        self.prefetched += 1

    def _new_run_id(self) -> str:
        self.runs += 1
        return f"run-{self.runs}"
