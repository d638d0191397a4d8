"""Serving an object on the bus by its introspection XML: methods, properties, errors, cancellation."""

from __future__ import annotations

import asyncio
import difflib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.introspection import Arg, Method, Node

from ..core.errors import Cancelled, Failed, FamulusError, InvalidArguments
from .connection import clean

_LOG = logging.getLogger(__name__)
_PROPERTIES = "org.freedesktop.DBus.Properties"
_INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"
_PEER = "org.freedesktop.DBus.Peer"
_FREEDESKTOP = "org.freedesktop.DBus.Error."
_DOCTYPE = (
    '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"\n'
    ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">\n'
)
_STANDARD = """\
  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect"><arg name="data" type="s" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
    <method name="GetMachineId"><arg name="machine_uuid" type="s" direction="out"/></method>
  </interface>
  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="out"/>
    </method>
    <method name="Set">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="in"/>
    </method>
    <method name="GetAll">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="properties" type="a{sv}" direction="out"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface_name" type="s"/>
      <arg name="changed_properties" type="a{sv}"/>
      <arg name="invalidated_properties" type="as"/>
    </signal>
  </interface>
"""

Body = Sequence[Any]
Handler = Callable[..., Body | Coroutine[Any, Any, Body]]
"""Takes the caller's unique name and the arguments; returns the body of the reply, now or later.

What runs before the first ``await`` happens in the order in which the calls arrived.
"""


class _StandardError(Exception):
    """An error of the D-Bus standard itself, for a call that reached none of our methods."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = _FREEDESKTOP + name
        self.text = text


class ServedInterface:
    """One interface of an object: what its XML declares, who does it, and how its properties are read."""

    def __init__(
        self, xml: str, methods: Mapping[str, Handler], properties: Mapping[str, Callable[[], Any]] | None = None
    ) -> None:
        declared = Node.parse(xml).interfaces[0]
        self.name: str = declared.name
        self.element = xml[xml.index("<interface") : xml.rindex("</interface>")] + "</interface>"
        """The ``<interface>`` element as it stands in the file, comments included."""
        self.handlers = methods
        self._getters = properties or {}
        self._methods = {method.name: method for method in declared.methods}
        self._signatures = {prop.name: prop.signature for prop in declared.properties}
        assert self._methods.keys() == methods.keys(), "each declared method has its handler"
        assert self._signatures.keys() == self._getters.keys(), "each declared property has its getter"

    def method(self, member: str) -> Method | None:
        """The declaration of a method."""
        return self._methods.get(member)

    def value(self, name: str) -> Variant:
        """A property's value now."""
        if name not in self._getters:
            raise _StandardError("UnknownProperty", f"{self.name} has no property {name}.")
        return Variant(self._signatures[name], clean(self._getters[name]()))

    def values(self) -> dict[str, Variant]:
        return {name: self.value(name) for name in self._getters}


class ObjectServer:
    """Answers every method call that reaches one bus connection, for the one object served there.

    ``allowed(sender)`` may refuse a caller before anything else happens. Whatever a handler raises is answered
    with an ``org.famulus.Error``; of an unexpected exception only the log learns more.
    """

    def __init__(
        self, path: str, interfaces: Sequence[ServedInterface], allowed: Callable[[str], bool] = lambda sender: True
    ) -> None:
        self.path = path
        self._interfaces = {interface.name: interface for interface in interfaces}
        self._allowed = allowed
        self._bus: MessageBus | None = None
        self._open: dict[asyncio.Task[Body], str] = {}
        self._closed = False

    def attach(self, bus: MessageBus) -> None:
        """Serve the calls of this connection; those of an earlier one are not answered any more."""
        self._bus = bus
        self._closed = False
        bus.add_message_handler(self._handle)

    def emit(self, interface: str, member: str, signature: str, body: Body, destination: str | None = None) -> None:
        """Send a signal of this object to one receiver, or to all who match it; without a bus it is dropped."""
        if self._bus is None or not self._bus.connected:
            return
        message = Message.new_signal(self.path, interface, member, signature, clean(body))
        message.destination = destination
        self._bus.send(message)

    def emit_changed(self, interface: ServedInterface, names: Sequence[str]) -> None:
        """Send PropertiesChanged with the present values of the properties ``names``."""
        values = {name: interface.value(name) for name in names}
        self.emit(_PROPERTIES, "PropertiesChanged", "sa{sv}as", [interface.name, values, []])

    def drop(self, sender: str) -> None:
        """Stop what a caller that has gone was waiting for."""
        for task in [task for task, owner in self._open.items() if owner == sender]:
            task.cancel()

    def drop_all(self) -> None:
        """The bus has gone, and every caller with it."""
        for task in list(self._open):
            task.cancel()

    async def close(self, timeout_s: float = 2) -> None:
        """Answer what is still open, and what may still come, with ``Cancelled``."""
        self._closed = True
        tasks = list(self._open)
        self.drop_all()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)

    def _handle(self, message: Message) -> bool:
        if message.message_type is not MessageType.METHOD_CALL or message.interface == _PEER:
            return False
        bus = self._bus
        assert bus is not None
        try:
            result, signature = self._dispatch(message)
        except Exception as error:
            self._fail(bus, message, error)
            return True
        if not isinstance(result, Coroutine):
            self._reply(bus, message, signature, result)
            return True
        task = asyncio.create_task(result)
        self._open[task] = message.sender or ""
        task.add_done_callback(lambda done: self._finish(bus, message, signature, done))
        return True

    def _dispatch(self, message: Message) -> tuple[Body | Coroutine[Any, Any, Body], str]:
        if message.interface == _INTROSPECTABLE and message.member == "Introspect":
            return [self._introspection(message.path or "/")], "s"
        if message.path != self.path:
            raise _StandardError("UnknownObject", f"There is no object {message.path}; use {self.path}.")
        sender = message.sender or ""
        if self._closed:
            raise Cancelled("The service is stopping; ask again when it is back.")
        if not self._allowed(sender):
            raise _StandardError("AccessDenied", "This caller may not use this object.")
        if message.interface == _PROPERTIES:
            return self._property(message)
        interface, method = self._find(message)
        if message.signature != method.in_signature:
            given = f"({message.signature})"
            raise InvalidArguments(f"{method.name} takes {_described(method.in_args)}, not {given}.")
        return interface.handlers[method.name](sender, *message.body), method.out_signature

    def _find(self, message: Message) -> tuple[ServedInterface, Method]:
        if message.interface is None:
            interfaces = list(self._interfaces.values())
        elif message.interface in self._interfaces:
            interfaces = [self._interfaces[message.interface]]
        else:
            raise _StandardError("UnknownInterface", f"{self.path} has no interface {message.interface}.")
        for interface in interfaces:
            if method := interface.method(message.member or ""):
                return interface, method
        known = [name for interface in interfaces for name in interface.handlers]
        close = difflib.get_close_matches(message.member or "", known, n=1)
        hint = f"; did you mean {close[0]}?" if close else "."
        raise _StandardError("UnknownMethod", f"There is no method {message.member}{hint}")

    def _property(self, message: Message) -> tuple[Body, str]:
        shape = (message.member, message.signature)
        if shape not in {("Get", "ss"), ("GetAll", "s"), ("Set", "ssv")}:
            raise _StandardError("UnknownMethod", "Properties has Get(ss), GetAll(s) and Set(ssv).")
        interface = self._interfaces.get(message.body[0])
        if interface is None:
            raise _StandardError("UnknownInterface", f"{self.path} has no interface {message.body[0]}.")
        if message.member == "GetAll":
            return [interface.values()], "a{sv}"
        value = interface.value(message.body[1])
        if message.member == "Set":
            raise _StandardError("PropertyReadOnly", f"{message.body[1]} can only be read.")
        return [value], "v"

    def _introspection(self, path: str) -> str:
        if path == self.path:
            elements = "".join(f"  {interface.element}\n" for interface in self._interfaces.values())
            return f"{_DOCTYPE}<node>\n{_STANDARD}{elements}</node>\n"
        above = path if path.endswith("/") else path + "/"
        child = self.path.removeprefix(above).split("/")[0] if self.path.startswith(above) else ""
        return f'{_DOCTYPE}<node>\n  <node name="{child}"/>\n</node>\n' if child else f"{_DOCTYPE}<node/>\n"

    def _finish(self, bus: MessageBus, message: Message, signature: str, task: asyncio.Task[Body]) -> None:
        self._open.pop(task, None)
        if task.cancelled():
            self._fail(bus, message, Cancelled("The call was stopped before its end; ask again."))
        elif error := task.exception():
            self._fail(bus, message, error)
        else:
            self._reply(bus, message, signature, task.result())

    def _reply(self, bus: MessageBus, message: Message, signature: str, body: Body) -> None:
        if not bus.connected or message.flags & MessageFlag.NO_REPLY_EXPECTED:
            return
        try:
            bus.send(Message.new_method_return(message, signature, clean(body)))
        except Exception as error:  # the body does not fit the declared signature
            self._fail(bus, message, error)

    def _fail(self, bus: MessageBus, message: Message, error: BaseException) -> None:
        match error:
            case FamulusError():
                name, text = error.dbus_name, error.message
            case _StandardError():
                name, text = error.name, error.text
            case _:
                # The traceback may hold what a person said, so that it is told at DEBUG only.
                _LOG.error("%s failed with %s", message.member, type(error).__name__)
                _LOG.debug("%s failed", message.member, exc_info=error)
                name, text = Failed("").dbus_name, f"{message.member} failed inside; the log of the service tells why."
        if bus.connected and not message.flags & MessageFlag.NO_REPLY_EXPECTED:
            bus.send(Message.new_error(message, name, clean(text)))


def _described(args: Sequence[Arg]) -> str:
    return "(" + ", ".join(f"{arg.signature} {arg.name}" for arg in args) + ")"
