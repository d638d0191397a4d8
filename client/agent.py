"""famulus as an app sees it: ask, follow a run, listen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from ..core.errors import Failed, FamulusError, InvalidArguments, TimedOut
from .connection import BUS_NAME, Target, call, call_bus, clean, close_bus, on_disconnect, open_bus_of
from .events import Event, Reply, to_event, to_reply

NAME = "org.famulus.Agent"
PATH = "/org/famulus/Agent"
AGENT = "org.famulus.Agent1"
CAPABILITIES = "org.famulus.Capabilities1"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_MAX_RUN_S = 620
"""Longer than any run's budget (600 s), so that this end never gives up first."""
_MAX_OPEN = 100
"""A bus refuses the 129th open call of one connection (dbus-daemon's default limit for the system bus)."""
_MAX_WAITING = 10_000

_Queue = asyncio.Queue[Event | None]


class Agent:
    """A proxy of the running famulus. Every method raises the errors of ``famulus.core.errors``."""

    def __init__(self, bus: MessageBus, name: str) -> None:
        self._bus = bus
        self._name = name
        self._owner = ""
        self._queues: list[_Queue] = []
        self._subscriptions = 0
        self._calls = asyncio.Semaphore(_MAX_OPEN)

    async def attach(self) -> None:
        """Begin to hear signals; :func:`connect` does this."""
        self._bus.add_message_handler(self._on_message)
        on_disconnect(self._bus, lambda: self._publish(None))
        rule = f"type='signal',sender='{BUS_NAME}',member='NameOwnerChanged',arg0='{self._name}'"
        await call_bus(self._bus, "AddMatch", "s", rule)
        with suppress(FamulusError):  # it may start later
            owner = await call_bus(self._bus, "GetNameOwner", "s", self._name)
            self._owner = self._owner or owner  # a change that came meanwhile is newer

    async def ask(
        self, text: str, *, language: str = "auto", session: str = "", timeout_s: float | None = None
    ) -> Reply:
        """Have a text worked on and wait for the end; ``timeout_s`` cancels the run and raises ``TimedOut``."""
        wait_s = _MAX_RUN_S if timeout_s is None else timeout_s + 5
        options = _options(language, session, timeout_s)
        reply, result = await self._call(AGENT, "Ask", "sa{sv}", [text, options], timeout_s=wait_s)
        return to_reply(reply, result)

    async def start(
        self, text: str, *, language: str = "auto", session: str = "", timeout_s: float | None = None
    ) -> str:
        """Begin a run; its id."""
        (run,) = await self._call(AGENT, "Start", "sa{sv}", [text, _options(language, session, timeout_s)])
        return str(run)

    async def stream(
        self, text: str, *, language: str = "auto", session: str = "", timeout_s: float | None = None
    ) -> AsyncIterator[Event]:
        """Begin a run and yield its events; the last one is ``finished``. Leaving early cancels the run."""
        with self._queue() as queue:
            run = await self.start(text, language=language, session=session, timeout_s=timeout_s)
            finished = False
            until = asyncio.get_running_loop().time() + _MAX_RUN_S
            try:
                while not finished:
                    event = await _next(queue, until)
                    if event.run == run:
                        finished = event.kind == "finished"
                        yield event
            finally:
                if not finished:
                    with suppress(FamulusError):
                        await self.cancel(run)

    async def cancel(self, run: str) -> None:
        """Stop a run; raises ``NotFound`` when no run of this app with that id is open."""
        await self._call(AGENT, "Cancel", "s", [run])

    async def listen(self) -> str:
        """Push to talk: listen for one sentence; the run's id."""
        (run,) = await self._call(AGENT, "Listen", "a{sv}", [{}])
        return str(run)

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[Event]]:
        """``async with agent.subscribe() as events``: the events that this program may hear, from now on.

        Who hears what stands with Subscribe in org.famulus.Agent1.xml. The iterator raises ``Failed`` when
        famulus goes; subscribe again when it is back.
        """
        with self._queue() as queue:
            await self._call(AGENT, "Subscribe", "", [])
            self._subscriptions += 1
            try:
                yield _events(queue)
            finally:
                self._subscriptions -= 1
                if not self._subscriptions:
                    with suppress(FamulusError):
                        await self._call(AGENT, "Unsubscribe", "", [])

    async def capabilities(self, name: str = "") -> list[dict[str, Any]]:
        """What famulus can do now, as manifests; only the capability ``name`` where given."""
        options = {"name": Variant("s", name)} if name else {}
        (text,) = await self._call(CAPABILITIES, "List", "a{sv}", [options])
        return list(json.loads(text))

    async def status(self) -> dict[str, Any]:
        """The state of all parts."""
        (text,) = await self._call(AGENT, "Status", "", [])
        return dict(json.loads(text))

    async def properties(self) -> dict[str, Any]:
        """``Version``, ``State``, ``Mode``, ``Scene`` and ``Health``."""
        (values,) = await self._call(_PROPERTIES, "GetAll", "s", [AGENT])
        return {name: variant.value for name, variant in values.items()}

    async def _call(
        self, interface: str, member: str, signature: str, body: Sequence[Any], *, timeout_s: float = 25
    ) -> list[Any]:
        if any(map(_unsendable, body)):
            raise InvalidArguments("The text holds characters that cannot be sent (NUL or lone surrogates).")
        async with self._calls:
            target = Target(self._name, PATH, interface)
            return await call(self._bus, target, member, signature, body, timeout_s=timeout_s)

    @contextmanager
    def _queue(self) -> Iterator[_Queue]:
        queue: _Queue = asyncio.Queue(_MAX_WAITING)
        self._queues.append(queue)
        try:
            yield queue
        finally:
            self._queues.remove(queue)

    def _on_message(self, message: Message) -> bool:
        if message.message_type is not MessageType.SIGNAL:
            return False
        if message.sender == BUS_NAME and message.member == "NameOwnerChanged" and message.signature == "sss":
            name, old_owner, new_owner = message.body
            if name == self._name:
                self._owner = new_owner
                if old_owner:
                    self._publish(None)
        elif message.sender == self._owner and message.interface == AGENT:
            event = to_event(message.member or "", message.signature, message.body)
            if event is not None:
                self._publish(event)
        return False

    def _publish(self, event: Event | None) -> None:
        """``None`` tells that famulus has gone. A reader that lets events pile up loses the oldest."""
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)


@asynccontextmanager
async def connect(address: str = "auto", name: str = NAME) -> AsyncIterator[Agent]:
    """Reach famulus over the bus: ``auto`` (the session bus where it is there, else the system bus), ``session``,
    ``system`` or a D-Bus address. Raises ``Failed`` where there is no bus; famulus itself may start later.
    """
    bus = await open_bus_of(name, address)
    try:
        agent = Agent(bus, name)
        await agent.attach()
        yield agent
    finally:
        await close_bus(bus)


def _unsendable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_unsendable(variant.value) for variant in value.values())
    return isinstance(value, str) and clean(value) != value


async def _next(queue: _Queue, until: float | None = None) -> Event:
    """The next event; raises ``Failed`` when famulus goes, ``TimedOut`` at ``until`` (of the loop's clock)."""
    try:
        async with asyncio.timeout_at(until):
            event = await queue.get()
    except TimeoutError:
        raise TimedOut("famulus did not tell of the run's end; ask again.") from None
    if event is None:
        raise Failed("famulus has left the bus; try again when it is back.")
    return event


async def _events(queue: _Queue) -> AsyncIterator[Event]:
    while True:
        yield await _next(queue)


def _options(language: str, session: str, timeout_s: float | None) -> dict[str, Variant]:
    options = {"language": Variant("s", language)}
    if session:
        options["session"] = Variant("s", session)
    if timeout_s is not None:
        options["timeout_s"] = Variant("d", float(timeout_s))
    return options
