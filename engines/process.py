"""An engine in a worker process of its own, which can be killed and whose memory really comes back."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .events import from_message
from .host import CANCEL_GRACE_S, KILL_WAIT_S, Host
from .memory import rss_of
from .wire import EndOfStream, Message, WireError, encode, pack, receive_async

_LOG = logging.getLogger(__name__)

_WIRE_FD = 3
_EXIT_GRACE_S = 0.2  # between the end of the wire and the end of the process
# The service manager's business with the daemon, and its secrets, are none of the worker's.
_WITHHELD = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "CREDENTIALS_DIRECTORY")


class ProcessHost(Host):
    """Hosts an engine in ``python -m famulus.engines.worker``.

    ``posix_spawn`` and a bounded ``waitpid`` rather than asyncio's subprocess: on Python 3.11 that keeps a thread
    for each child. ``python_path`` is put before the worker's module path.
    """

    def __init__(
        self,
        engine: str,
        options: dict[str, Any],
        *,
        name: str = "",
        cancel_grace_s: float = CANCEL_GRACE_S,
        python_path: Sequence[Path] = (),
    ) -> None:
        super().__init__(engine, options, name=name, cancel_grace_s=cancel_grace_s)
        self._python_path = tuple(python_path)
        self._pid = 0
        self._reaped = False
        self._writer: asyncio.StreamWriter | None = None
        self._stderr: _StderrTail | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._pid or None

    def rss_bytes(self) -> int:
        return rss_of(self._pid) if self._pid and not self._reaped else 0

    def _open(self) -> None:
        fields = {"engine": self.engine, "options": self.options, "log_level": _LOG.getEffectiveLevel()}
        frame = encode(Message("load", 0, fields))
        ours, theirs = socket.socketpair()
        with theirs:
            stderr_read, stderr_write = os.pipe()
            try:
                self._pid = self._spawn(theirs.fileno(), stderr_write)
            except OSError:
                ours.close()
                os.close(stderr_read)
                raise
            finally:
                os.close(stderr_write)
        self._stderr = _StderrTail(stderr_read, f"{self.name}[{self._pid}]")
        self._task = asyncio.create_task(self._serve(ours, frame), name=f"worker {self.name}")

    def _spawn(self, wire: int, stderr: int) -> int:
        environment = {key: value for key, value in os.environ.items() if key not in _WITHHELD}
        paths = [str(path) for path in self._python_path]
        if inherited := environment.get("PYTHONPATH"):
            paths.append(inherited)
        if paths:
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        return os.posix_spawn(
            sys.executable,
            # -P: the working directory is no place to import from.
            [sys.executable, "-P", "-m", "famulus.engines.worker", str(_WIRE_FD)],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, stderr, 1),  # native libraries print there
                (os.POSIX_SPAWN_DUP2, stderr, 2),
                (os.POSIX_SPAWN_DUP2, wire, _WIRE_FD),
            ],
            setpgroup=0,
        )

    def _post_call(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        tags, payload = pack(args)
        self._write(Message("call", number, {"method": method, "values": tags}, payload))

    def _post_cancel(self, number: int) -> None:
        self._write(Message("cancel", number, {}))

    def _post_close(self) -> None:
        self._write(Message("close", 0, {}))

    def _write(self, message: Message) -> None:
        # No drain: one request at a time is on its way, its size is bounded, and it has a deadline.
        assert self._writer is not None
        self._writer.write(encode(message))

    def _destroy(self) -> None:
        if not self._pid:
            self._finish(self._reason)
        elif not self._reaped:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    async def _serve(self, wire: socket.socket, load: bytes) -> None:
        """Read the wire until it ends, then see the process off."""
        assert self._stderr is not None
        reader, self._writer = await asyncio.open_unix_connection(sock=wire)
        try:
            self._writer.write(load)
            await self._read(reader)
            status = await self._reap()
        except asyncio.CancelledError:  # the loop is being shut down around us
            self._destroy()
            raise
        finally:
            self._writer.transport.abort()  # not close: what is still buffered has no reader
            self._stderr.close()
        last_line = self._stderr.last_line
        self._finish(f"{status}; the last line it wrote: {last_line}" if last_line else status)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._deliver(from_message(await receive_async(reader)))
        except EndOfStream:
            pass
        except WireError as error:
            self._abort(f"it sent garbage ({error.message})")

    async def _reap(self) -> str:
        """Wait for the process, killing it when it outlives its wire; returns how it ended."""
        kill_at = time.monotonic() + _EXIT_GRACE_S
        give_up_at = kill_at + KILL_WAIT_S
        while (now := time.monotonic()) < give_up_at:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)  # noqa: ASYNC222 - WNOHANG does not wait
            except ChildProcessError:
                self._reaped = True
                return "its worker ended"
            if pid:
                self._reaped = True
                return _describe(os.waitstatus_to_exitcode(status))
            if now >= kill_at:
                self._destroy()
            await asyncio.sleep(0.002)
        return "its worker cannot be ended"


class _StderrTail:
    """Passes a worker's output to the log at DEBUG and keeps the last line for the story of its end."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self._name = name
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=1)
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._on_readable)

    @property
    def last_line(self) -> str:
        return self._lines[-1][:200] if self._lines else ""

    def close(self) -> None:
        """Take what is still in the pipe, in case it tells why the worker ended."""
        for _ in range(64):
            if not self._on_readable():
                break
        self._shut()

    def _on_readable(self) -> bool:
        """Take what is there; False when there is no more for now."""
        if self._fd < 0:
            return False
        try:
            chunk = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return False
        if not chunk:
            self._shut()
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-4096:]
        for line in lines:
            if text := line[:4096].decode("utf-8", "replace").strip():
                self._lines.append(text)
                _LOG.debug("%s: %s", self._name, text)
        return True

    def _shut(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            if text := self._rest.decode("utf-8", "replace").strip():
                self._lines.append(text)
                self._rest = b""


def _describe(code: int) -> str:
    if code >= 0:
        return f"its worker ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel does this when memory runs out)" if name == "SIGKILL" else ""
    return f"its worker was killed by {name}{hint}"
