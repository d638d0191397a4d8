"""The daemon under test: a process of its own, with its own home, settings and bus."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType

from ..client.agent import NAME
from ..client.connection import BUS_NAME, call_bus, close_bus, open_bus
from ..core.errors import TimedOut
from . import procfs
from .processes import ManagedProcess

STOP_S = 8.0
_START_S = 30.0
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


class Daemon:
    """``python -m famulus.daemon --config FILE`` in ``directory``; ``config`` is section → key → value."""

    def __init__(
        self, directory: Path, bus_address: str, config: Mapping[str, Mapping[str, Any]], env: Mapping[str, str]
    ) -> None:
        self.bus_address = bus_address
        self.config_file = directory / "famulus.toml"
        self._directory = directory
        self._toml = toml({**config, "bus": {"address": bus_address, **config.get("bus", {})}})
        self.process = ManagedProcess(
            "famulusd",
            [sys.executable, "-m", "famulus.daemon", "--config", str(self.config_file)],
            env={**private_environment(directory), **env},
            cwd=directory,
        )
        self.ready_s = 0.0
        """Seconds from spawn until the bus name was owned."""

    @property
    def pid(self) -> int:
        return self.process.pid

    async def start(self, timeout_s: float = _START_S) -> None:
        """Returns when the daemon owns its name. Raises ``Failed`` or ``TimedOut`` with its last log lines."""
        await self.spawn()
        await self.wait_until_named(timeout_s)

    async def spawn(self) -> None:
        """Only start the process."""
        await asyncio.to_thread(self._write)
        self._spawned = time.monotonic()
        await self.process.start()

    async def wait_until_named(self, timeout_s: float = _START_S) -> None:
        bus = await open_bus(self.bus_address)
        named = asyncio.Event()

        def on_message(message: Message) -> None:
            if message.message_type is MessageType.SIGNAL and message.member == "NameOwnerChanged":
                name, _, owner = message.body
                if name == NAME and owner:
                    named.set()

        try:
            bus.add_message_handler(on_message)
            rule = f"type='signal',sender='{BUS_NAME}',member='NameOwnerChanged',arg0='{NAME}'"
            await call_bus(bus, "AddMatch", "s", rule)
            if await call_bus(bus, "NameHasOwner", "s", NAME):
                named.set()
            await self.process.wait_until(named, f"on the bus as {NAME}", timeout_s)
            self.ready_s = time.monotonic() - self._spawned
        finally:
            await close_bus(bus)

    async def children(self) -> list[int]:
        """Process ids of its workers."""
        return await asyncio.to_thread(procfs.descendants, self.pid)

    async def worker(self, engine: str, timeout_s: float = 15.0) -> int:
        """The process id of the worker that has loaded ``engine``'s library, once there is one."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:  # no event tells what a child has mapped
                    for pid in await self.children():
                        if await asyncio.to_thread(procfs.has_mapped, pid, engine):
                            return pid
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise TimedOut(f"No worker of the daemon loaded {engine} within {timeout_s:g} s.") from None

    async def stop(self, grace_s: float = STOP_S) -> int | None:
        """SIGTERM, SIGKILL after ``grace_s``; the kernel ends its workers with it. Its exit code."""
        return await self.process.stop(grace_s)

    def _write(self) -> None:
        for name in ("home", "config", "state", "cache", "data", "run"):
            (self._directory / name).mkdir(mode=0o700, exist_ok=True)
        self.config_file.write_text(self._toml, "utf-8")


def private_environment(directory: Path) -> dict[str, str]:
    """An environment in which a program finds only its own home, and no FAMULUS_* of the user's."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        "PATH": os.defpath,
        **kept,
        "PYTHONUNBUFFERED": "1",
        "HOME": str(directory / "home"),
        "XDG_CONFIG_HOME": str(directory / "config"),
        "XDG_STATE_HOME": str(directory / "state"),
        "XDG_CACHE_HOME": str(directory / "cache"),
        "XDG_DATA_HOME": str(directory / "data"),
        "XDG_RUNTIME_DIR": str(directory / "run"),
    }


def toml(config: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of strings, numbers, booleans and lists: for these, TOML's values are written as JSON's."""
    lines = []
    for section, values in config.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
