"""An app whose functions famulus can call: declare them, run, and stay registered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from ..core.errors import Denied, Failed, FamulusError, InvalidArguments, NotFound
from .agent import CAPABILITIES, NAME, PATH
from .command import Command, Template, make_command
from .connection import BUS_NAME, Target, call, call_bus, close_bus, on_disconnect, open_bus_of
from .objects import ObjectServer, ServedInterface

_LOG = logging.getLogger(__name__)
_XML = (Path(__file__).parent / "org.famulus.Provider1.xml").read_text(encoding="utf-8")
_OBJECT = "/org/famulus/Provider"
_RETRY_S = (0.2, 5.0)
_LOOK_AGAIN_S = 3.0
_Function = TypeVar("_Function", bound=Callable[..., Any])


class App:
    """One capability, made of functions.

    ``name`` is the capability's name, such as ``lamp``. Of two apps that offer a command of the same name, the one
    of higher ``priority`` gets it.
    """

    def __init__(self, name: str, *, description: str = "", version: str = "", priority: int = 0) -> None:
        self.name = name
        self._head = {"name": name, "description": description, "version": version, "priority": priority}
        self._commands: dict[str, Command] = {}
        self._calls: dict[str, asyncio.Task[str]] = {}
        self._daemon = ""
        self._told_of_waiting = False
        self._wake = asyncio.Event()
        self._stopping = False
        interface = ServedInterface(_XML, {"Invoke": self._invoke, "CancelCall": self._cancel_call})
        self._server = ObjectServer(_OBJECT, [interface], allowed=lambda sender: sender == self._daemon)

    def command(
        self,
        name: str,
        description: str = "",
        *,
        sentences: Mapping[str, Sequence[Template]] | None = None,
        examples: Sequence[Template] = (),
        **more: Any,
    ) -> Callable[[_Function], _Function]:
        """Make a function, plain or asynchronous, a command.

        The signature gives the parameters (see ``parameters_of``), the docstring the description where none is
        given. ``sentences`` are templates by language (``en``, ``zh``); ``examples`` what people say, with the
        arguments meant: ``("brighter, please", {"percent": 80})``. ``more``: ``risk`` (``safe``, ``notable``,
        ``dangerous``), ``scenes``, ``requires``, ``effects``, ``sensitive``, ``timeout_s``.

        A text that the function returns is said, anything else is data, :class:`Say` is both. Raise an error of
        ``famulus.core.errors`` to fail with a sentence of your own.
        """

        def add(function: _Function) -> _Function:
            if name in self._commands:
                raise InvalidArguments(f"The command {name} stands twice in {self.name}; rename one.")
            self._commands[name] = make_command(
                function, name, description, sentences=sentences or {}, examples=examples, more=more
            )
            return function

        return add

    @property
    def manifest(self) -> dict[str, Any]:
        """What is registered."""
        return {**self._head, "commands": [command.manifest for command in self._commands.values()]}

    def stop(self) -> None:
        """Make :meth:`run` unregister and return."""
        self._stopping = True
        self._wake.set()

    async def run(self, address: str = "auto", bus_name: str = NAME) -> None:
        """Register, serve, and register again whenever famulus or the bus comes back, until :meth:`stop`.

        Raises ``InvalidArguments`` or ``Denied`` when famulus refuses the manifest.
        """
        if address == "none":
            raise InvalidArguments("The bus address is none; an app needs a bus to be reached.")
        delay = _RETRY_S[0]
        told = False
        while not self._stopping:
            try:
                bus = await open_bus_of(bus_name, address)
            except Failed as error:
                if not told:
                    _LOG.warning("%s Waiting for it.", error.message)
                    told = True
                await self._pause(delay)
                delay = min(delay * 2, _RETRY_S[1])
                continue
            delay, told = _RETRY_S[0], False
            await self._serve(bus, bus_name, may_move=address == "auto")
            await self._pause(_RETRY_S[0])

    def main(self) -> None:
        """Run until Ctrl-C or SIGTERM. With ``--bus ADDRESS`` on the command line that bus is used."""
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        arguments = sys.argv[1:]
        if arguments and (len(arguments) != 2 or arguments[0] != "--bus"):
            sys.exit(f"usage: {sys.argv[0]} [--bus auto|session|system|ADDRESS]")
        try:
            asyncio.run(self._run_until_signal(arguments[1] if arguments else "auto"))
        except FamulusError as error:
            sys.exit(error.message)

    async def _run_until_signal(self, address: str) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        await self.run(address)

    async def _serve(self, bus: MessageBus, bus_name: str, may_move: bool) -> None:
        """Stay on one connection until it is lost or the app stops."""

        def on_message(message: Message) -> bool:
            if (
                message.message_type is MessageType.SIGNAL
                and message.sender == BUS_NAME
                and message.member == "NameOwnerChanged"
                and message.signature == "sss"
                and message.body[0] == bus_name
            ):
                self._server.drop(message.body[1])
                self._daemon = message.body[2]
                self._wake.set()
            return False

        lost = asyncio.Event()

        def on_lost() -> None:
            lost.set()
            self._wake.set()

        on_disconnect(bus, on_lost)
        try:
            bus.add_message_handler(on_message)
            self._server.attach(bus)
            rule = f"type='signal',sender='{BUS_NAME}',member='NameOwnerChanged',arg0='{bus_name}'"
            await call_bus(bus, "AddMatch", "s", rule)
            await self._stay_registered(bus, bus_name, lost, may_move)
        except Failed as error:
            if bus.connected:
                raise
            _LOG.info("%s", error.message)
        finally:
            self._daemon = ""
            await self._server.close()
            await close_bus(bus)

    async def _stay_registered(self, bus: MessageBus, bus_name: str, lost: asyncio.Event, may_move: bool) -> None:
        """Register whenever famulus comes; ``may_move``: return where it does not, to look for it on another bus."""
        target = Target(bus_name, PATH, CAPABILITIES)
        registered_with = ""
        with contextlib.suppress(NotFound):
            owner = await call_bus(bus, "GetNameOwner", "s", bus_name)
            self._daemon = self._daemon or owner  # a change that came meanwhile is newer
        while not self._stopping and not lost.is_set():
            self._wake.clear()
            if self._daemon and self._daemon != registered_with:
                daemon = self._daemon
                try:
                    await call(bus, target, "Register", "so", [json.dumps(self.manifest), _OBJECT])
                except (InvalidArguments, Denied):
                    raise
                except FamulusError as error:  # it may have left between its arrival and our call
                    _LOG.warning("%s is not registered yet: %s", self.name, error.message)
                    await self._pause(_RETRY_S[0])
                    continue
                registered_with, self._told_of_waiting = daemon, False
                _LOG.info("%s is registered: %s", self.name, ", ".join(self._commands))
            elif not self._daemon and not self._told_of_waiting:
                registered_with, self._told_of_waiting = "", True
                _LOG.warning("famulus is not running (%s is not on the bus); waiting for it.", bus_name)
            if self._daemon or not may_move:
                await self._wake.wait()
            else:
                await self._pause(_LOOK_AGAIN_S)
                if not self._daemon:
                    return
        if registered_with and bus.connected:
            with contextlib.suppress(FamulusError):
                await call(bus, target, "Unregister", "s", [self.name], timeout_s=2)

    async def _pause(self, seconds: float) -> None:
        if not self._stopping:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), seconds)

    async def _invoke(self, sender: str, name: str, args_json: str, context: dict[str, Variant]) -> Sequence[Any]:
        command = self._commands.get(name)
        if command is None:
            raise NotFound(f"{self.name} has no command {name}; register it again.")
        call_id = str(context["call"].value) if "call" in context else ""
        task = asyncio.ensure_future(command.invoke(args_json))
        self._calls[call_id] = task
        try:
            return [await task]
        finally:
            task.cancel()
            if self._calls.get(call_id) is task:
                del self._calls[call_id]

    def _cancel_call(self, sender: str, call_id: str) -> Sequence[Any]:
        if task := self._calls.get(call_id):
            task.cancel()
        return []
