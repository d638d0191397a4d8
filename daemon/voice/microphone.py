"""A microphone through PortAudio: found by name, opened at a rate it has, noticed within a second when it dies."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ...core.errors import Busy, Denied, Failed, FamulusError, NotFound
from ...engines.protocols import SAMPLE_RATE
from . import alsa
from .bounded import BoundedCaller
from .quiet import silence_sound_libraries
from .resample import Resampler
from .source import BLOCK_BYTES, BLOCK_S, SourceLost

_LOG = logging.getLogger(__name__)

_OPEN_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 0.3
_FIRST_BLOCK_TIMEOUT_S = 4.0  # PulseAudio takes 2 s to wake an idle device
_BLOCK_TIMEOUT_S = 1.0
_CHECK_S = 0.25
_QUEUE_BLOCKS = 100  # 8 s; more means that nobody listens
_UNSUPPORTED = (-9997, -9998)  # paInvalidSampleRate, paInvalidChannelCount
_UNAVAILABLE = -9985  # paDeviceUnavailable


class Microphone:
    """A capture device whose name contains ``device``, ignoring case; the system's default for ``""``.

    Names stay the same over replugging and reboots, indices do not. Each :meth:`open` looks at the devices anew.
    """

    has_noise_floor = True

    def __init__(self, device: str = "") -> None:
        self._device = device
        self._caller = BoundedCaller("sound-device")
        self._closed = threading.Event()
        self._stream: _Stream | None = None
        self._pending = bytearray()
        self._lock = threading.Lock()

    def describe(self) -> str:
        stream = self._stream
        if stream is None:
            return f"microphone {self._device or '(default)'}"
        return f"microphone {stream.name}: {stream.rate} Hz"

    def open(self) -> None:
        """Raises ``NotFound`` with the names that exist, ``Busy`` with the holder, ``Denied`` or ``Failed``."""
        self.close()
        self._closed.clear()
        self._pending.clear()
        stream = self._caller.call(
            lambda: _open_stream(self._device), timeout_s=_OPEN_TIMEOUT_S, discard=_Stream.close, stop=self._closed
        )
        with self._lock:
            self._stream = stream

    def read(self) -> bytes:
        while len(self._pending) < BLOCK_BYTES:
            stream = self._stream
            if stream is None or self._closed.is_set():
                raise SourceLost("The microphone was closed.")
            self._pending += stream.read(self._closed)
        block = bytes(self._pending[:BLOCK_BYTES])
        del self._pending[:BLOCK_BYTES]
        return block

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.blocks.put(b"")
        try:
            self._caller.call(stream.close, timeout_s=_CLOSE_TIMEOUT_S, discard=lambda _: None)
        except FamulusError:
            _LOG.debug("Closing %s takes long; it goes on in the background.", stream.name)


class _Stream:
    """An open PortAudio stream in callback mode: PortAudio's thread fills the queue."""

    def __init__(self, audio: Any, info: Mapping[str, Any], rate: int, channels: int) -> None:
        import pyaudio

        self.name = str(info["name"])
        self.rate = rate
        self.blocks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._continue = (None, pyaudio.paContinue)
        self._resampler = Resampler(rate, channels) if (rate, channels) != (SAMPLE_RATE, 1) else None
        self._audio = audio
        self._timeout_s = _FIRST_BLOCK_TIMEOUT_S
        self._stream = audio.open(
            format=pyaudio.paInt16,
            rate=rate,
            channels=channels,
            input=True,
            input_device_index=info["index"],
            frames_per_buffer=round(rate * BLOCK_S),
            stream_callback=self._on_audio,
        )

    def read(self, closed: threading.Event) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                pcm = self.blocks.get(timeout=_CHECK_S)
            except queue.Empty:
                pcm = b""
            if closed.is_set():
                raise SourceLost("The microphone was closed.")
            if pcm:
                self._timeout_s = _BLOCK_TIMEOUT_S
                return pcm if self._resampler is None else self._resampler.feed(pcm)
            if not self._active():
                raise SourceLost(f"The microphone {self.name} went away; plug it in again or start the sound server.")
            if time.monotonic() >= deadline:
                raise SourceLost(f"The microphone {self.name} gives no sound; replug it or restart the sound server.")

    def close(self) -> None:
        """May hang as long as the sound server does."""
        with contextlib.suppress(OSError):
            self._stream.close()
        self._audio.terminate()

    def _active(self) -> bool:
        try:
            return bool(self._stream.is_active())
        except OSError:
            return False

    def _on_audio(self, pcm: bytes, _frames: int, _times: object, _flags: int) -> tuple[None, int]:
        if self.blocks.qsize() < _QUEUE_BLOCKS:
            self.blocks.put(pcm)
        return self._continue


def _open_stream(device: str) -> _Stream:
    try:
        import pyaudio
    except ImportError as error:
        raise Failed("PyAudio cannot be loaded; install portaudio19-dev and the package PyAudio again.") from error
    silence_sound_libraries()
    audio = pyaudio.PyAudio()  # a new one each time: PortAudio lists the devices only once
    try:
        info = _find(audio, device)
        name = str(info["name"])
        if "(hw:" in name and (owner := alsa.holder(name)):
            raise _busy(name, owner)
        return _open_at_a_rate_it_has(audio, info)
    except BaseException:
        audio.terminate()
        raise


def _open_at_a_rate_it_has(audio: Any, info: Mapping[str, Any]) -> _Stream:
    name = info["name"]
    for rate, channels in _formats(info):
        try:
            return _Stream(audio, info, rate, channels)
        except (OSError, ValueError) as error:
            code = next((value for value in error.args if isinstance(value, int)), 0)
            if code in _UNSUPPORTED:
                continue
            if alsa.forbidden():
                raise _denied() from error
            if code == _UNAVAILABLE:
                raise _busy(str(name), "another program") from error
            reason = error.args[-1] if error.args else "no reason given"
            raise Failed(f"The microphone {name} cannot be opened ({reason}); choose another device.") from error
    raise Failed(f"The microphone {name} offers no sample rate that can be used; choose another in audio.device.")


def _formats(info: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Rates and channels to try, the cheapest first."""
    yield SAMPLE_RATE, 1
    most = int(info["maxInputChannels"])
    for rate in dict.fromkeys((int(info["defaultSampleRate"]), 48_000, 44_100, 32_000, SAMPLE_RATE)):
        for channels in dict.fromkeys((1, min(2, most), most)):
            if (rate, channels) != (SAMPLE_RATE, 1):
                yield rate, channels


def _find(audio: Any, device: str) -> Mapping[str, Any]:
    devices: list[Mapping[str, Any]] = [
        audio.get_device_info_by_index(index) for index in range(audio.get_device_count())
    ]
    microphones = [info for info in devices if info["maxInputChannels"] > 0]
    if not microphones:
        if alsa.forbidden():
            raise _denied()
        if owner := alsa.holder(device):
            raise _busy(device, owner)
        raise NotFound("There is no microphone; plug one in or start the sound server.")
    if not device:
        try:
            default: Mapping[str, Any] = audio.get_default_input_device_info()
        except OSError:
            return microphones[0]
        return default
    for info in microphones:
        if device.casefold() in str(info["name"]).casefold():
            return info
    if owner := alsa.holder(device):
        raise _busy(device, owner)
    names = ", ".join(sorted(str(info["name"]) for info in microphones))
    raise NotFound(f"There is no microphone named {device!r}; set audio.device to a part of one of: {names}.")


def _busy(name: str, owner: str) -> Busy:
    which = f"The microphone {name}" if name else "The microphone"
    return Busy(f"{which} is in use by {owner}; end it, or share one through PipeWire.")


def _denied() -> Denied:
    return Denied("The microphone may not be opened; add the daemon's user to the group audio.")
