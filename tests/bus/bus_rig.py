"""A private bus, the service on it, and an agent that is small but really runs tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from famulus.capabilities.registry import Registry
from famulus.client.connection import close_bus, open_bus
from famulus.core.errors import Busy, InvalidArguments
from famulus.daemon.agent.run import Event, Listener, RunResult, Utterance
from famulus.daemon.bus.service import BusService

NAME = "org.famulus.Agent"
PATH = "/org/famulus/Agent"
AGENT = "org.famulus.Agent1"
CAPABILITIES = "org.famulus.Capabilities1"

_CONFIG = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
    <allow own="*"/>
  </policy>
  <limit name="max_replies_per_connection">{replies}</limit>
</busconfig>
"""


class PrivateDaemon:
    """A dbus-daemon of the test's own, which it may stop and start again.

    ``replies`` is how many calls of one connection may be open: 128 on a system bus, 50,000 on a session bus.
    """

    def __init__(self, directory: Path, replies: int = 128) -> None:
        self.socket = directory / "bus"
        self.address = f"unix:path={self.socket}"
        self._config = directory / "bus.conf"
        self._config.write_text(_CONFIG.format(socket=self.socket, replies=replies))
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = directory

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        command = ["dbus-daemon", f"--config-file={self._config}", "--nofork", "--nopidfile", "--print-address=1"]
        with (self._directory / "bus.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "dbus-daemon did not start"
        self.socket.chmod(0o666)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            if self._process.stdout:
                self._process.stdout.close()
            self._process = None


@pytest.fixture
def bus_directory(tmp_path: Path) -> Path:
    """Under tmp_path, and open to other users, who must reach the socket in it."""
    for directory in (tmp_path, *list(tmp_path.parents)[:3]):
        if directory.stat().st_uid == os.geteuid() and str(directory) not in {"/", "/tmp"}:
            directory.chmod(directory.stat().st_mode | 0o011)
    return tmp_path


@pytest.fixture
def private_daemon(bus_directory: Path, request: pytest.FixtureRequest) -> Iterator[PrivateDaemon]:
    """Its parameter, where a test gives one, is ``replies``."""
    daemon = PrivateDaemon(bus_directory, getattr(request, "param", 128))
    daemon.start()
    yield daemon
    daemon.stop()


class FakeRun:
    def __init__(self, run_id: str) -> None:
        self.id = run_id
        self.done: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()

    async def wait(self) -> RunResult:
        return await asyncio.shield(self.done)


class FakeAgent:
    """Echoes; ``wait`` runs until cancelled, ``tokens N`` streams N tokens in one turn of the loop."""

    def __init__(self) -> None:
        self.utterances: list[Utterance] = []
        self.cancelled: list[str] = []
        self.queue = 8
        self._open: dict[str, tuple[FakeRun, Utterance, asyncio.Task[None]]] = {}
        self._listeners: list[Listener] = []

    def start(self, utterance: Utterance, run_id: str = "") -> FakeRun:
        if utterance.text == "impossible":
            raise InvalidArguments("This text is impossible.")
        if utterance.text == "crash":
            raise RuntimeError("secret detail")
        if len(self._open) >= self.queue:
            raise Busy("Too many requests are being worked on already: try again in a moment.")
        self.utterances.append(utterance)
        run = FakeRun(run_id or f"r{len(self.utterances)}")
        if utterance.text == "stop":
            self._finish(run, utterance, RunResult(run.id, "done", "Stopped.", decided_by="stop"))
            return run
        task = asyncio.create_task(self._work(run, utterance))
        self._open[run.id] = (run, utterance, task)
        task.add_done_callback(lambda _: self._never_began(run, utterance))
        return run

    def cancel(self, run_id: str, owner: str) -> bool:
        held = self._open.get(run_id)
        if held is None or held[1].owner != owner:
            return False
        held[2].cancel()
        return True

    def cancel_owner(self, owner: str) -> None:
        for run_id, (_, utterance, _) in list(self._open.items()):
            if utterance.owner == owner:
                self.cancel(run_id, owner)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, event: Event) -> None:
        for listener in list(self._listeners):
            listener(event)

    @property
    def open_runs(self) -> int:
        return len(self._open)

    async def _work(self, run: FakeRun, utterance: Utterance) -> None:
        result = RunResult(run.id, "done", utterance.text, "sentences", stages_ms={"intent": 0.5})
        try:
            self.publish(Event("stage", run.id, utterance.owner, {"stage": "intent", "words": utterance.text, "n": 1}))
            word, _, rest = utterance.text.partition(" ")
            if word == "wait":
                await asyncio.sleep(60)
            elif word == "tokens":
                for number in range(int(rest)):
                    self.publish(Event("token", run.id, utterance.owner, {"text": f"{number} "}))
            elif word == "nul":
                result = RunResult(run.id, "done", "a\0b\ud800c")
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled.append(run.id)
            result = RunResult(run.id, "cancelled", "Stopped.", error="cancelled")
        self._finish(run, utterance, result)

    def _never_began(self, run: FakeRun, utterance: Utterance) -> None:
        """A task that is cancelled before its first step runs no line of its own."""
        if run.id in self._open:
            self.cancelled.append(run.id)
            self._finish(run, utterance, RunResult(run.id, "cancelled", "Stopped.", error="cancelled"))

    def _finish(self, run: FakeRun, utterance: Utterance, result: RunResult) -> None:
        self._open.pop(run.id, None)
        run.done.set_result(result)
        self.publish(Event("finished", run.id, utterance.owner, result.to_dict()))


class FakeVoice:
    """A voice loop whose turns the test plays itself."""

    def __init__(self) -> None:
        self.state = "idle"
        self.turns = 0

    def listen(self) -> str:
        if self.state != "idle":
            raise Busy("A turn is going on already: wait for its end.")
        self.turns += 1
        return f"voice-{self.turns}"


class Served:
    """The service with the parts behind it."""

    def __init__(self, daemon: PrivateDaemon) -> None:
        self.address = daemon.address
        self.agent = FakeAgent()
        self.voice = FakeVoice()
        self.registry = Registry()
        self.health = {"microphone": "ok"}
        self.service = BusService(
            daemon.address,
            NAME,
            agent=self.agent,
            voice=self.voice,
            registry=self.registry,
            status=lambda: {"state": self.voice.state, "health": self.health},
            version="1.2.3",
        )


@pytest.fixture
async def served(private_daemon: PrivateDaemon) -> AsyncIterator[Served]:
    served = Served(private_daemon)
    await served.service.start()
    yield served
    await served.service.stop()


class Client:
    """A bare dbus-fast connection that remembers the signals it gets."""

    def __init__(self, bus: MessageBus) -> None:
        self.bus = bus
        self.signals: list[tuple[str, list[Any]]] = []
        bus.add_message_handler(self._on_message)

    def _on_message(self, message: Message) -> bool:
        if message.message_type is MessageType.SIGNAL and message.path == PATH:
            self.signals.append((message.member or "", message.body))
        return False

    async def raw(self, member: str, signature: str = "", *body: Any, interface: str | None = AGENT) -> Message:
        message = Message(NAME, PATH, interface, member, signature=signature, body=list(body))
        reply = await asyncio.wait_for(self.bus.call(message), 20)
        assert reply is not None
        return reply

    async def call(self, member: str, signature: str = "", *body: Any, interface: str = AGENT) -> list[Any]:
        reply = await self.raw(member, signature, *body, interface=interface)
        assert reply.message_type is MessageType.METHOD_RETURN, (reply.error_name, reply.body)
        return list(reply.body)

    async def ask(self, text: str, **options: Variant) -> list[Any]:
        return await self.call("Ask", "sa{sv}", text, options)

    async def error(self, member: str, signature: str = "", *body: Any, interface: str = AGENT) -> tuple[str, str]:
        """The short name and the text of the error reply."""
        reply = await self.raw(member, signature, *body, interface=interface)
        assert reply.message_type is MessageType.ERROR, reply.body
        assert reply.error_name is not None
        return reply.error_name.rpartition(".")[2], reply.body[0]

    def names(self) -> list[str]:
        return [name for name, _ in self.signals]


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    bus = await open_bus(address)
    try:
        yield Client(bus)
    finally:
        await close_bus(bus)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with connected(served.address) as client:
        yield client


async def until(condition: Callable[[], Any], timeout_s: float = 5) -> None:
    """Wait for a condition; fails the test at the deadline."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (the condition may be in another process)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def program(
    source: str, *args: str, prefix: tuple[str, ...] = (), python: str = sys.executable
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python program in a process of its own, killed by its id at the end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *prefix, python, "-u", "-c", source, *args, stdin=pipe, stdout=pipe, limit=2**20
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await asyncio.wait_for(process.wait(), 10)


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 20)).decode().strip()
