"""A microphone without a sound server: a FIFO that is never silent longer than a real microphone would be."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import select
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from ..core.errors import Failed, TimedOut

_BLOCK = 640  # bytes: 20 ms of 16 kHz mono s16le
_PIPE_BYTES = 4096  # the smallest pipe there is: 128 ms, so that "written" is close to "heard"
_POLL_MS = 100


class PacedFifo:
    """Writes raw 16 kHz mono s16le into the FIFO ``path``, silence in between; the reader sets the pace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: queue.SimpleQueue[tuple[bytes, Future[None]]] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        await asyncio.to_thread(os.mkfifo, self.path, 0o600)
        self._thread = threading.Thread(target=self._run, name="fifo-microphone", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)
            self._thread = None

    async def play_pcm(self, pcm: bytes, timeout_s: float) -> None:
        """Returns when the last sample was taken. Raises ``TimedOut`` where nobody reads."""
        done: Future[None] = Future()
        self._queue.put((pcm, done))
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wrap_future(done)
        except TimeoutError:
            raise TimedOut(f"Nobody took the recording from {self.path} within {timeout_s:g} s.") from None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _run(self) -> None:
        while not self._ending.is_set():
            descriptor = self._open()
            if descriptor is None:
                return
            try:
                self._feed(descriptor)
            except BrokenPipeError:
                continue  # the reader went away; wait for the next one
            finally:
                os.close(descriptor)

    def _open(self) -> int | None:
        """A non-blocking open of a FIFO fails until somebody reads it."""
        while not self._ending.wait(0.05):
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    continue
                raise
            with contextlib.suppress(OSError):  # a kernel that refuses the size only makes us less exact
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            return descriptor
        return None

    def _feed(self, descriptor: int) -> None:
        silence = bytes(_BLOCK)
        while not self._ending.is_set():
            self._write(descriptor, silence)  # fails, too, where the reader has gone: a recording is for the next one
            try:
                pcm, done = self._queue.get_nowait()
            except queue.Empty:
                continue
            try:
                for start in range(0, len(pcm), _BLOCK):
                    self._write(descriptor, pcm[start : start + _BLOCK])
            except BrokenPipeError:
                _settle(done, Failed("The daemon stopped reading the recording."))
                raise
            _settle(done, None)

    def _write(self, descriptor: int, block: bytes) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        rest = memoryview(block)
        while rest and not self._ending.is_set():
            if poll.poll(_POLL_MS):
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(descriptor, rest) :]


def _settle(done: Future[None], error: Failed | None) -> None:
    if not done.set_running_or_notify_cancel():
        return  # the caller gave up waiting
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
