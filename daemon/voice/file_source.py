"""Audio from a recording, or from a FIFO that other programs write recordings into."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
import time
from pathlib import Path
from typing import Any

from ...core.errors import Denied, Failed, NotFound
from .resample import Resampler
from .source import BLOCK_BYTES, BLOCK_S, SILENT_BLOCK, SourceLost

_CATCH_UP_S = 1.0  # how much lateness is made up for by giving blocks at once


class FileSource:
    """Plays ``path`` as a microphone would hear it: in real time, and silence where there is nothing to hear.

    A WAV or FLAC file of any rate is played once. A FIFO holds raw 16 kHz mono s16le; its writers may come and
    go, and one that writes too fast waits. ``pace`` is a multiple of real time.
    """

    has_noise_floor = False

    def __init__(self, path: str | Path, *, pace: float = 1.0) -> None:
        self._path = Path(path)
        self._block_s = BLOCK_S / pace
        self._closed = threading.Event()
        self._input: _Fifo | _Recording | None = None
        self._lock = threading.Lock()
        self._due = 0.0

    def describe(self) -> str:
        return f"file {self._path}"

    def open(self) -> None:
        """Raises ``NotFound``, ``Denied``, or ``Failed`` for a file that holds no audio."""
        self.close()
        try:
            is_fifo = stat.S_ISFIFO(self._path.stat().st_mode)
            opened = _Fifo(self._path, grace_s=self._block_s) if is_fifo else _Recording(self._path)
        except FileNotFoundError as error:
            raise NotFound(f"The audio file {self._path} does not exist; correct audio.file or create it.") from error
        except PermissionError as error:
            raise Denied(f"The audio file {self._path} may not be read; give the daemon's user access.") from error
        except OSError as error:
            raise Failed(f"The audio file {self._path} cannot be read: {error.strerror or error}.") from error
        with self._lock:
            self._input = opened
        self._closed.clear()
        self._due = time.monotonic()

    def read(self) -> bytes:
        self._due = max(self._due + self._block_s, time.monotonic() - _CATCH_UP_S)
        wait_s = self._due - time.monotonic()
        if self._closed.wait(wait_s) if wait_s > 0 else self._closed.is_set():
            raise SourceLost(f"The audio file {self._path} was closed.")
        with self._lock:
            if self._input is None:
                raise SourceLost(f"The audio file {self._path} was closed.")
            pcm = self._input.read()
        return pcm + SILENT_BLOCK[len(pcm) :] if pcm else SILENT_BLOCK

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._input is not None:
                self._input.close()
                self._input = None


class _Fifo:
    """Whole blocks of raw audio as long as a writer keeps up."""

    def __init__(self, path: Path, *, grace_s: float) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._grace_s = grace_s
        self._pending = bytearray()

    def read(self) -> bytes:
        """A block, or less where the writer has no more."""
        self._take()
        if 0 < len(self._pending) < BLOCK_BYTES:
            # A writer at exactly our pace is sometimes a little late: silence in the middle of a word would hurt.
            deadline = time.monotonic() + self._grace_s
            while len(self._pending) < BLOCK_BYTES and (left := deadline - time.monotonic()) > 0:
                readable, _, _ = select.select([self._descriptor], [], [], left)
                if not readable or not self._take():
                    break
        block = bytes(self._pending[:BLOCK_BYTES])
        block = block[: len(block) & ~1]
        del self._pending[: len(block)]
        if len(block) < BLOCK_BYTES:
            self._pending.clear()  # half a sample of a writer that left must not shift the next one's bytes
        return block

    def _take(self) -> bool:
        before = len(self._pending)
        with contextlib.suppress(BlockingIOError):
            self._pending += os.read(self._descriptor, BLOCK_BYTES - len(self._pending))
        return len(self._pending) > before

    def close(self) -> None:
        os.close(self._descriptor)


class _Recording:
    """Blocks of a sound file."""

    def __init__(self, path: Path) -> None:
        import soundfile

        try:
            self._file: Any = soundfile.SoundFile(path)
        except soundfile.LibsndfileError as error:
            raise Failed(f"{path} is no sound file that can be played; use WAV or FLAC.") from error
        self._resampler = Resampler(self._file.samplerate, self._file.channels)
        self._frames = max(1, round(self._file.samplerate * BLOCK_S))
        self._pending = bytearray()

    def read(self) -> bytes:
        """A block; less at the end of the file and nothing after it."""
        while len(self._pending) < BLOCK_BYTES:
            frames = self._file.read(self._frames, dtype="int16")
            if not len(frames):
                break
            self._pending += self._resampler.feed(frames.tobytes())
        block = bytes(self._pending[:BLOCK_BYTES])
        del self._pending[: len(block)]
        return block

    def close(self) -> None:
        self._file.close()
