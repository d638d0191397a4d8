"""A child process that is always ended, with the last lines it said kept for the error message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from ..core.errors import Failed, NotFound, TimedOut

KEPT_LINES = 200
_LINE_LIMIT = 1 << 20  # bytes; a longer line is a fault of the child, and ends the reading of that stream


class ManagedProcess:
    """Runs ``argv`` in a session of its own, so that Ctrl-C reaches only us and we end things in order.

    ``on_line`` gets each line of both its outputs. ``env`` is the whole environment.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self._argv = list(argv)
        self._env = dict(env)
        self._cwd = cwd
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises ``NotFound`` where the program is not installed."""
        path = self._env.get("PATH", os.defpath)
        program = await asyncio.to_thread(shutil.which, self._argv[0], path=path)
        if program is None:
            raise NotFound(f"{self._argv[0]} is not installed; {self.name} needs it.")
        # Where we are killed ourselves, the kernel ends it: setpriv asks for that and then becomes the program.
        with_us = ["setpriv", "--pdeathsig", "KILL", "--"] if await asyncio.to_thread(shutil.which, "setpriv") else []
        self._process = await asyncio.create_subprocess_exec(
            *with_us,
            program,
            *self._argv[1:],
            env=self._env,
            cwd=self._cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_LINE_LIMIT,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(self._process.stdout)),
            asyncio.create_task(self._read(self._process.stderr)),
        ]

    @property
    def pid(self) -> int:
        if self._process is None:
            raise Failed(f"{self.name} was not started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def tail(self, lines: int = 20) -> str:
        """The last lines of both streams."""
        return "\n".join(list(self._lines)[-lines:])

    def failure(self, what: str, kind: type[Failed] | type[TimedOut] = Failed) -> Failed | TimedOut:
        """An error that says what did not happen and what the process said last."""
        state = "still runs" if self.running else f"ended with code {self.returncode}"
        said = self.tail() or "(nothing)"
        return kind(f"{self.name} {what} ({state}). Its last lines:\n{said}")

    async def wait(self, timeout_s: float) -> int:
        """The exit code. Raises ``TimedOut``."""
        assert self._process is not None
        try:
            async with asyncio.timeout(timeout_s):
                code = await self._process.wait()
        except TimeoutError:
            raise self.failure(f"did not end within {timeout_s:g} s", TimedOut) from None
        await asyncio.wait(self._readers, timeout=1.0)  # so that tail() holds what it said at the end
        return code

    async def wait_until(self, ready: asyncio.Event, what: str, timeout_s: float) -> None:
        """Wait for ``ready``; fail at once when the process ends first, and after ``timeout_s`` in any case."""
        assert self._process is not None
        waits = [asyncio.create_task(ready.wait()), asyncio.create_task(self._process.wait())]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        if ready.is_set():
            return
        if not self.running:
            await asyncio.wait(self._readers, timeout=1.0)
            raise self.failure(f"ended before {what}")
        raise self.failure(f"was not {what} within {timeout_s:g} s", TimedOut)

    def send_signal(self, number: int) -> None:
        if self.running:
            assert self._process is not None
            self._process.send_signal(number)

    async def stop(self, grace_s: float = 8.0) -> int | None:
        """SIGTERM, SIGKILL after ``grace_s``; what is left of its process group is killed too."""
        if self._process is None:
            return None
        try:
            self.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await asyncio.wait(self._readers, timeout=1.0)
        for reader in self._readers:
            reader.cancel()
        return self._process.returncode

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _read(self, stream: asyncio.StreamReader) -> None:
        with contextlib.suppress(ValueError):  # a line over the limit
            while raw := await stream.readline():
                line = raw.decode("utf-8", "replace").rstrip("\n")
                self._lines.append(line)
                if self._on_line is not None:
                    self._on_line(line)
