"""A real bus with the real agent on it, and the command in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.private_bus import PrivateBus
from famulus.capabilities.builtin import clock
from famulus.capabilities.command import Capability, Command, Outcome, Sentence
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry
from famulus.core.errors import Failed
from famulus.daemon.agent.agent import Agent
from famulus.daemon.agent.run import Event, Utterance
from famulus.daemon.agent.understand import Understander
from famulus.daemon.bus.service import BusService

NOW = datetime(2026, 11, 30, 14, 5)
STATUS = {
    "state": "idle",
    "mode": "local",
    "version": "1.2.3",
    "uptime_s": 11100,
    "memory_mb": 55.5,
    "health": {"microphone": "ok", "llm": "ready"},
    "slots": [{"name": "llm", "state": "ready", "memory_mb": 180.0, "expires_in_s": 250}],
    "capabilities": {"clock": 2, "lamp": 2},
}


class Lamp:
    """A provider that blinks until it is stopped, or breaks."""

    def __init__(self) -> None:
        self.blinking = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        if command == "lamp.break":
            raise Failed("The lamp has no bulb; put one in.")
        self.blinking.set()
        await asyncio.sleep(30)
        return Outcome()

    async def cancel(self, call_id: str) -> None:
        self.cancelled.set()


def lamp() -> Capability:
    def command(name: str, text: str) -> Command:
        return Command(name=name, description=text, sentences={"en": (Sentence(text=text),)}, timeout_s=60)

    return Capability(name="lamp", commands=(command("lamp.blink", "blink"), command("lamp.break", "break")))


class Ear:
    """A voice loop that hears ``what time is it`` as soon as it is asked to listen."""

    state = "idle"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.words = "what time is it"

    def listen(self) -> str:
        run_id = self._agent.new_run_id()

        def hear() -> None:
            self._agent.publish(Event("transcript", run_id, "", {"text": self.words, "final": True}))
            self._agent.start(Utterance(self.words, "voice"), run_id)

        asyncio.get_running_loop().call_later(0.05, hear)
        return run_id


@dataclass
class Done:
    """How the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running:
    """The command while it runs."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, stream: str = "stdout") -> str:
        reader = getattr(self._process, stream)
        return (await asyncio.wait_for(reader.readline(), 20)).decode().rstrip()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def end(self, stdin: bytes = b"") -> Done:
        async with asyncio.timeout(30):
            out, err = await self._process.communicate(stdin)
        assert self._process.returncode is not None
        return Done(self._process.returncode, out.decode(), err.decode())

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.wait_for(self._process.wait(), 10)


class Service:
    """The agent on its bus."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.registry = Registry()
        self.lamp = Lamp()
        self.agent = Agent(self.registry, Understander(self.registry, None), budget_s=60, queue=4)
        self.ear = Ear(self.agent)
        self.bus = BusService(
            address,
            "org.famulus.Agent",
            agent=self.agent,
            voice=self.ear,
            registry=self.registry,
            status=lambda: STATUS,
            version="1.2.3",
        )

    async def start(self) -> None:
        self.registry.register(clock.capability(), clock.ClockProvider(now=lambda: NOW))
        self.registry.register(lamp(), self.lamp)
        await self.bus.start()

    async def stop(self) -> None:
        await self.agent.close()
        await self.bus.stop()


@pytest.fixture
async def bus_address(tmp_path: Path) -> AsyncIterator[str]:
    async with PrivateBus(tmp_path) as bus:
        yield bus.address


@pytest.fixture
async def service(bus_address: str) -> AsyncIterator[Service]:
    service = Service(bus_address)
    await service.start()
    yield service
    await service.stop()


@pytest.fixture
async def launch(bus_address: str) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """``await launch("watch")`` starts the command on the test's bus; it is killed at the end where it still runs."""
    running: list[Running] = []

    async def launch(*args: str | bytes, env: dict[str, str] | None = None) -> Running:
        own = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "FAMULUS_BUS__ADDRESS": bus_address, "HOME": "/"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "import sys; from famulus.daemon.cli import main; sys.exit(main())", *args),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**own, **(env or {})},
        )
        running.append(Running(process))
        return running[-1]

    yield launch
    for one in running:
        await one.kill()


@pytest.fixture
def famulus(launch: Callable[..., Awaitable[Running]]) -> Callable[..., Awaitable[Done]]:
    """``await famulus("ask", "hello")`` runs the command to its end."""

    async def run(*args: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None) -> Done:
        return await (await launch(*args, env=env)).end(stdin)

    return run
