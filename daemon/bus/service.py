"""famulus on the bus: one connection that comes back, one name, one object."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence
from typing import Any

from dbus_fast import Message, MessageType, NameFlag
from dbus_fast.aio import MessageBus

from ...client.connection import BUS_NAME, call_bus, close_bus, on_disconnect, open_bus, resolve_address
from ...client.objects import ObjectServer
from ...core.errors import Denied, FamulusError
from ..agent.run import Event
from . import agent1, capabilities1
from .agent1 import Agent1
from .capabilities1 import Capabilities1
from .identity import Identities
from .ports import Agent, Registry, Status, Voice

OBJECT_PATH = "/org/famulus/Agent"
_LOG = logging.getLogger(__name__)
_NAME_CHANGES = f"type='signal',sender='{BUS_NAME}',interface='{BUS_NAME}',member='NameOwnerChanged'"
_OWNED = {1, 4}  # RequestName: primary owner, already owner
_RETRY_S = (0.1, 5.0)
_STEADY_S = 10.0
"""A connection that lived so long was sound: the next back-off starts anew."""


class BusService:
    """Puts the agent on the bus and keeps it there.

    ``address`` is as in the settings (``auto``, ``session``, ``system``, ``none`` or a D-Bus address), ``name``
    the well-known name to own. What a connection asked for ends with it: its runs are cancelled, its
    capabilities removed. When the bus itself goes, the same holds for everybody, and the service comes back
    with the bus; calls that were open are not answered.
    """

    def __init__(
        self,
        address: str,
        name: str,
        *,
        agent: Agent,
        voice: Voice | None,
        registry: Registry,
        status: Status,
        version: str,
    ) -> None:
        self._address = address
        self._name = name
        self._agent = agent
        self._registry = registry
        self._bus: MessageBus | None = None
        self._named = False
        self._keeper: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._endings = contextlib.ExitStack()
        self._identities = Identities()
        self._agent1 = Agent1(
            agent, voice, status=status, version=version, identities=self._identities, emit=self._emit
        )
        self._capabilities1 = Capabilities1(registry, lambda: self._bus)
        self._server = ObjectServer(OBJECT_PATH, [self._agent1.interface, self._capabilities1.interface])
        self._told: dict[str, Any] = {}

    @property
    def connected(self) -> bool:
        """Whether the service is on the bus under its name now."""
        return self._named and self._bus is not None and self._bus.connected

    async def start(self) -> None:
        """Connect, take the name and serve; with the address ``none`` do nothing.

        Raises ``Failed`` when there is no bus, so that a later try may succeed, and ``Denied`` when another famulus
        owns the name or the bus policy keeps this user from owning it.
        """
        if not await asyncio.to_thread(resolve_address, self._address):
            return
        await self._connect()
        self._endings.callback(self._agent.subscribe(self._on_event))
        self._endings.callback(self._registry.on_change(self._on_change))
        self._keeper = asyncio.create_task(self._keep_connected(), name="bus keeper")

    async def stop(self) -> None:
        """Give up the name, answer open calls with ``Cancelled``, remove the apps' capabilities, disconnect."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper], timeout=2)
            self._keeper = None
        self._endings.close()
        bus, self._bus, self._named = self._bus, None, False
        self._drop_all()
        await self._server.close()
        if bus is not None and bus.connected:
            # The bus handles our messages in order: once it has answered this, every reply has reached it too.
            with contextlib.suppress(FamulusError):
                await call_bus(bus, "ReleaseName", "s", self._name, timeout_s=1)
            await close_bus(bus)

    def refresh(self) -> None:
        """Tell the bus which properties have changed since the last time, such as Health."""
        now = self._agent1.interface.values()
        changed = [name for name, value in now.items() if self._told.get(name) != value]
        self._told = now
        if changed:
            self._server.emit_changed(self._agent1.interface, changed)

    def timer_fired(self, timer_id: str, label: str, owner: str = "") -> None:
        """Send TimerFired to the app that set the timer (``""``: a person did) and to subscribers who may hear."""
        self._agent1.timer_fired(timer_id, label, owner)

    async def _connect(self) -> None:
        address = await asyncio.to_thread(resolve_address, self._address)
        bus = await open_bus(address)
        try:
            bus.add_message_handler(self._on_message)
            self._identities.attach(bus)
            self._server.attach(bus)
            await call_bus(bus, "AddMatch", "s", _NAME_CHANGES)
            self._bus = bus
            self._told = self._agent1.interface.values()
            await self._take_name(bus)
            self._lost.clear()
            on_disconnect(bus, self._lost.set)
        except BaseException:
            self._bus = None
            await close_bus(bus)
            raise
        _LOG.info("on the bus as %s (%s)", self._name, bus.unique_name)

    async def _take_name(self, bus: MessageBus) -> None:
        try:
            reply = await call_bus(bus, "RequestName", "su", self._name, int(NameFlag.DO_NOT_QUEUE))
        except Denied:
            raise Denied(
                f"The bus policy does not let user {os.geteuid()} own {self._name}; install famulus' policy file."
            ) from None
        if reply in _OWNED:
            self._named = True
            return
        pid = "unknown"
        with contextlib.suppress(FamulusError):
            pid = await call_bus(bus, "GetConnectionUnixProcessID", "s", self._name)
        raise Denied(f"{self._name} is taken: another famulus runs (pid {pid}); stop it or set another bus name.")

    async def _keep_connected(self) -> None:
        delay = _RETRY_S[0]
        while True:
            loop = asyncio.get_running_loop()
            since = loop.time()
            await self._lost.wait()
            _LOG.error("the connection to the bus was lost: reconnecting")
            self._bus, self._named = None, False
            self._drop_all()
            if loop.time() - since > _STEADY_S:
                delay = _RETRY_S[0]
            while self._bus is None:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _RETRY_S[1])
                try:
                    await self._connect()
                except FamulusError as error:
                    _LOG.debug("not yet back on the bus: %s", error.message)
                except Exception:
                    _LOG.exception("the reconnection to the bus failed")

    def _drop_all(self) -> None:
        self._server.drop_all()
        self._identities.clear()
        self._agent1.drop_all()
        self._capabilities1.drop_all()

    def _on_message(self, message: Message) -> bool:
        """Watch for connections that leave the bus."""
        if (
            message.message_type is MessageType.SIGNAL
            and message.member == "NameOwnerChanged"
            and message.sender == BUS_NAME
            and message.signature == "sss"
        ):
            name, _, new_owner = message.body
            if name.startswith(":") and not new_owner:
                self._server.drop(name)
                self._agent1.drop(name)
                self._capabilities1.drop(name)
                self._identities.forget(name)
        return False

    def _on_event(self, event: Event) -> None:
        if event.kind == "state":
            self.refresh()
        else:
            self._agent1.on_event(event)

    def _on_change(self, version: int) -> None:
        self._server.emit(capabilities1.NAME, "Changed", "u", [version])

    def _emit(self, member: str, signature: str, body: Sequence[Any], destination: str) -> None:
        self._server.emit(agent1.NAME, member, signature, body, destination)
