"""The one thread that is always on: audio from the source to the wake word, or to the loop while it listens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ...core.errors import FamulusError
from ...engines.protocols import BYTES_PER_SECOND, Detection, KeywordSpotter
from . import level
from .backoff import Backoff
from .source import BLOCK_BYTES, SILENT_BLOCK, AudioSource

_LOG = logging.getLogger(__name__)

_LEVEL_EVERY_S = 1.0
_PREROLL_BLOCKS = 3  # 0.24 s: people speak while they press the button
_JOIN_S = 0.6
_TICK_S = 0.5

State = Literal["ok", "mic_lost", "deaf", "starting", "off"]
Mode = Literal["muted", "armed", "listening"]


@dataclass(frozen=True)
class CaptureHealth:
    """How the ear is. ``message`` and ``wake_error`` say what is wrong, ``""`` for nothing.

    ``deaf``: the device works and gives only zeros. ``level_dbfs`` is renewed once a second. ``faults`` counts
    exceptions that no error class names.
    """

    state: State
    source: str
    message: str = ""
    wake_error: str = ""
    frame_age_s: float | None = None
    level_dbfs: float | None = None
    blocks: int = 0
    losses: int = 0
    faults: int = 0


class CaptureListener(Protocol):
    """Called on the event loop."""

    def on_wake(self, detection: Detection) -> None:
        """A wake word was heard; the audio after it follows at once."""

    def on_audio(self, pcm: bytes) -> None: ...

    def on_lost(self, message: str) -> None:
        """The source went away while listening."""


class Capture:
    """Runs ``source`` and the wake word for ever; whatever they raise is logged, counted and tried again.

    ``make_spotter`` loads the detector, on the capture thread; None for a device without a wake word. ``source``
    None means no microphone at all. After a hit the wake word is deaf for ``refractory_s`` of audio.
    """

    def __init__(
        self,
        source: AudioSource | None,
        make_spotter: Callable[[], KeywordSpotter] | None,
        *,
        refractory_s: float = 1.0,
        starvation_s: float = 1.0,
        deaf_after_s: float = 30.0,
    ) -> None:
        self._source = source
        self._make_spotter = make_spotter
        self._refractory_blocks = round(refractory_s * BYTES_PER_SECOND / BLOCK_BYTES)
        self._starvation_s = starvation_s
        self._deaf_after_s = deaf_after_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: CaptureListener | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

        self._lock = threading.Lock()  # over mode and epoch
        self._mode: Mode = "muted"
        self._epoch = 0  # counts changes of mode, so that what was sent before one is told from what came after
        self._reset_wanted = False

        self._spotter: KeywordSpotter | None = None
        self._spotter_backoff = Backoff()
        self._spotter_retry_at = 0.0
        self._spotter_deaf_until = 0
        self._preroll: deque[bytes] = deque(maxlen=_PREROLL_BLOCKS)

        self._progress = 0
        self._blocks = 0
        self._losses = 0
        self._faults = 0
        self._lost = ""
        self._wake_error = ""
        self._block_at: float | None = None
        self._zeros_since: float | None = None
        self._deaf = False
        self._level: float | None = None
        self._level_at = 0.0

    @property
    def progress(self) -> int:
        """Grows at least every few seconds while the thread is alive, also without a microphone; for a watchdog."""
        return self._progress

    def start(self, listener: CaptureListener) -> None:
        """Start the thread, with the wake word muted; call on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        if self._source is None:
            return
        self._stopping.clear()
        self._block_at, self._lost = None, ""
        self._thread = threading.Thread(target=self._run, args=(self._source,), name="capture", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread, within a second also where the device hangs."""
        self._stopping.set()
        self._set_mode("muted")
        thread, self._thread = self._thread, None
        if thread is not None and self._source is not None:
            await asyncio.to_thread(self._end, self._source, thread)

    def arm(self) -> None:
        """Listen for the wake word."""
        self._set_mode("armed")

    def mute(self) -> None:
        """Let audio go by."""
        self._set_mode("muted")

    def listen(self) -> None:
        """Send all audio to the listener, from a moment before now."""
        self._set_mode("listening")

    def health(self) -> CaptureHealth:
        age = None if self._block_at is None else max(0.0, time.monotonic() - self._block_at)
        state: State = "ok"
        if self._thread is None:
            state = "off"
        elif self._lost or (age is not None and age > self._starvation_s):
            state = "mic_lost"
        elif age is None:
            state = "starting"
        elif self._deaf:
            state = "deaf"
        message = self._lost
        if state == "mic_lost" and not message:
            message = "The microphone stopped giving sound; replug it or restart the sound server."
        elif state == "deaf":
            message = "The microphone gives only digital silence; unmute it or replug it."
        return CaptureHealth(
            state=state,
            source=self._source.describe() if self._source is not None else "none",
            message=message,
            wake_error=self._wake_error,
            frame_age_s=age,
            level_dbfs=self._level,
            blocks=self._blocks,
            losses=self._losses,
            faults=self._faults,
        )

    def _set_mode(self, mode: Mode) -> None:
        with self._lock:
            if mode == self._mode == "armed":
                return
            self._mode = mode
            self._epoch += 1
            self._reset_wanted = True

    # What follows runs on the capture thread.

    def _run(self, source: AudioSource) -> None:
        backoff = Backoff()
        self._ready_spotter()
        while not self._stopping.is_set():
            try:
                source.open()
                while not self._stopping.is_set():
                    self._take(source, source.read())
            except FamulusError as error:
                self._lose(error.message)
            except Exception:
                self._faults += 1
                _LOG.debug("The audio source raised an exception.", exc_info=True)
                self._lose("The audio source broke; see the debug log, or choose another in audio.source.")
            finally:
                with contextlib.suppress(Exception):
                    source.close()
            self._pause(backoff.next())
        self._drop_spotter()

    def _end(self, source: AudioSource, thread: threading.Thread) -> None:
        with contextlib.suppress(Exception):
            source.close()
        thread.join(_JOIN_S)
        if thread.is_alive():
            _LOG.warning("The audio source does not let go; it is left behind.")

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._stopping.wait(min(left, _TICK_S)):
            self._progress += 1

    def _lose(self, message: str) -> None:
        self._progress += 1
        if self._stopping.is_set():
            return
        if not self._lost:
            self._losses += 1
            _LOG.error("%s", message)
        self._lost = message
        with self._lock:
            listening, epoch = self._mode == "listening", self._epoch
        if listening and self._listener is not None:
            self._post(epoch, self._listener.on_lost, message)

    def _take(self, source: AudioSource, block: bytes) -> None:
        now = time.monotonic()
        if self._lost or self._block_at is None:
            _LOG.info("Hearing through %s.", source.describe())
            self._lost = ""
            self._zeros_since = None
        self._block_at = now
        self._blocks += 1
        self._progress += 1
        self._measure(source, block, now)
        self._route(block, now)

    def _measure(self, source: AudioSource, block: bytes, now: float) -> None:
        if now - self._level_at >= _LEVEL_EVERY_S:
            self._level_at = now
            self._level = level.dbfs(block)
        if block != SILENT_BLOCK:
            self._zeros_since = None
            self._deaf = False
        elif self._zeros_since is None:
            self._zeros_since = now
        elif source.has_noise_floor and not self._deaf and now - self._zeros_since >= self._deaf_after_s:
            self._deaf = True
            _LOG.error("The microphone gives only digital silence; unmute it or replug it.")

    def _route(self, block: bytes, now: float) -> None:
        assert self._listener is not None
        with self._lock:
            mode, epoch = self._mode, self._epoch
        if mode == "listening":
            while self._preroll:
                self._post(epoch, self._listener.on_audio, self._preroll.popleft())
            self._post(epoch, self._listener.on_audio, block)
            return
        self._preroll.append(block)
        if mode == "armed" and self._blocks >= self._spotter_deaf_until and now >= self._spotter_retry_at:
            hit = self._spot(block)
            if hit is not None:
                self._wake(hit, block, epoch)

    def _wake(self, hit: Detection, block: bytes, epoch: int) -> None:
        assert self._listener is not None
        self._spotter_deaf_until = self._blocks + self._refractory_blocks
        with self._lock:
            if epoch != self._epoch:
                return  # the loop wanted something else meanwhile
            self._mode = "listening"
            self._epoch = epoch = epoch + 1
        self._preroll.clear()
        self._post(epoch, self._listener.on_wake, hit)
        if hit.lag_samples > 0:
            self._post(epoch, self._listener.on_audio, block[-2 * hit.lag_samples :])

    def _spot(self, block: bytes) -> Detection | None:
        spotter = self._ready_spotter()
        if spotter is None:
            return None
        try:
            if self._reset_wanted:
                self._reset_wanted = False
                spotter.reset()
            hit = spotter.process(block)
        except Exception as error:
            self._blame_spotter(error)
            return None
        if self._wake_error:
            self._wake_error = ""
            _LOG.info("The wake word works again.")
        return hit

    def _ready_spotter(self) -> KeywordSpotter | None:
        if self._spotter is None and self._make_spotter is not None:
            try:
                self._spotter = self._make_spotter()
            except Exception as error:
                self._blame_spotter(error)
        return self._spotter

    def _blame_spotter(self, error: Exception) -> None:
        if isinstance(error, FamulusError):
            message = error.message
        else:
            self._faults += 1
            message = "The wake word detector broke; it is started again."
            _LOG.debug("The wake word detector raised an exception.", exc_info=error)
        if not self._wake_error:
            _LOG.error("%s", message)
        self._wake_error = message
        self._drop_spotter()
        self._spotter_retry_at = time.monotonic() + self._spotter_backoff.next()

    def _drop_spotter(self) -> None:
        spotter, self._spotter = self._spotter, None
        if spotter is not None:
            with contextlib.suppress(Exception):
                spotter.close()

    def _post(self, epoch: int, function: Callable[[Any], None], argument: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._deliver, epoch, function, argument)
        except RuntimeError:  # the loop is closed
            self._stopping.set()

    def _deliver(self, epoch: int, function: Callable[[Any], None], argument: object) -> None:
        if epoch == self._epoch:
            function(argument)
