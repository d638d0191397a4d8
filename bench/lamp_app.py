"""The example app in a process of its own: what the daemon calls, seen from the other side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from ..core.errors import NotFound
from .daemon import private_environment
from .processes import ManagedProcess

_SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "lamp.py"
_START_S = 15.0


class LampApp:
    """``examples/lamp.py`` on the bus at ``bus_address``; ``changes`` are the lines it printed, one per call."""

    def __init__(self, directory: Path, bus_address: str) -> None:
        self.changes: list[dict[str, Any]] = []
        self._registered = asyncio.Event()
        self._changed = asyncio.Event()
        self.process = ManagedProcess(
            "the lamp app",
            [sys.executable, str(_SCRIPT), "--bus", bus_address],
            env=private_environment(directory),
            on_line=self._on_line,
        )

    async def start(self) -> None:
        """Returns when its commands are registered."""
        if not await asyncio.to_thread(_SCRIPT.is_file):
            raise NotFound(f"{_SCRIPT} is missing; run this from a checkout of famulus.")
        await self.process.start()
        await self.process.wait_until(self._registered, "registered", _START_S)

    async def stop(self) -> None:
        await self.process.stop(grace_s=2.0)

    async def changes_since(self, start: int, count: int, timeout_s: float = 2.0) -> list[dict[str, Any]]:
        """The changes from number ``start`` on, once there are ``count`` of them or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while len(self.changes) < start + count:
                    self._changed.clear()
                    await self._changed.wait()
        return self.changes[start:]

    def kill(self) -> None:
        """As a crash does: no goodbye."""
        self.process.send_signal(signal.SIGKILL)

    def _on_line(self, line: str) -> None:
        if line.startswith("{"):
            self.changes.append(json.loads(line))
            self._changed.set()
        elif " is registered" in line:
            self._registered.set()
