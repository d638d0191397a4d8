"""A connection to a D-Bus bus: finding it, opening it, and calling methods over it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusFastError

from ..core.errors import Busy, Denied, Failed, FamulusError, InvalidArguments, NotFound, TimedOut, error_from_dbus_name
from .writer import install

BUS_NAME = "org.freedesktop.DBus"
_SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"
_FREEDESKTOP = "org.freedesktop.DBus.Error."
_GONE = {"ServiceUnknown", "NameHasNoOwner", "UnknownObject", "UnknownInterface", "NoReply", "Disconnected"}


@dataclass(frozen=True)
class Target:
    """Whom a call is for: a bus name, an object of it, an interface of that."""

    name: str
    path: str
    interface: str


_BUS = Target(BUS_NAME, "/org/freedesktop/DBus", BUS_NAME)


def resolve_address(address: str) -> str:
    """The D-Bus address meant by ``auto``, ``session``, ``system`` or an address; ``""`` for ``none``.

    ``auto`` is the session bus where there is one, else the system bus. Looks at the file system: call it in a thread.
    """
    match address:
        case "none":
            return ""
        case "auto":
            return _session_bus() or _system_bus()
        case "session":
            if found := _session_bus():
                return found
            raise Failed("There is no session bus here; log in to a session or set DBUS_SESSION_BUS_ADDRESS.")
        case "system":
            return _system_bus()
    if ":" not in address:
        raise InvalidArguments(
            "The bus address must be auto, session, system, none or a D-Bus address such as unix:path=/run/bus."
        )
    return address


def _session_bus() -> str:
    if address := os.environ.get("DBUS_SESSION_BUS_ADDRESS", ""):
        return address
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "bus"
    try:
        return f"unix:path={path}" if path.is_socket() else ""
    except PermissionError:  # another user's
        return ""


def _system_bus() -> str:
    return os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM_BUS


async def open_bus(address: str, timeout_s: float = 10) -> MessageBus:
    """Connect to the bus at a D-Bus address; raises ``Failed`` when it cannot be reached."""
    try:
        # Since dbus-fast 5 the constructor does no I/O: only connect() does, and it is asynchronous.
        bus = MessageBus(bus_address=address)
        async with asyncio.timeout(timeout_s):
            await bus.connect()
    except (OSError, EOFError, DBusFastError) as error:
        reason = str(error) or type(error).__name__
        raise Failed(f"The bus at {address} cannot be reached ({reason}); start it or set another address.") from error
    install(bus)
    return bus


async def open_bus_of(name: str, address: str) -> MessageBus:
    """Connect to the bus on which ``name`` is to be found.

    With ``auto`` that is the session bus where ``name`` is on it (or can be started by it), else the system bus where
    it is on that one, else whichever of the two there is. Raises ``Failed`` where there is none.
    """
    if address != "auto":
        found = await asyncio.to_thread(resolve_address, address)
        if not found:
            raise Failed("The bus address is none, so famulus cannot be reached; set another one.")
        return await open_bus(found)
    session = await asyncio.to_thread(_session_bus)
    if not session:
        return await open_bus(_system_bus())
    try:
        bus = await open_bus(session)
    except Failed:
        return await open_bus(_system_bus())
    if await _offers(bus, name):
        return bus
    try:
        system = await open_bus(_system_bus())
    except Failed:
        return bus
    unwanted = bus if await _offers(system, name) else system
    await close_bus(unwanted)
    return system if unwanted is bus else bus


async def _offers(bus: MessageBus, name: str) -> bool:
    try:
        if await call_bus(bus, "NameHasOwner", "s", name):
            return True
        return name in await call_bus(bus, "ListActivatableNames")
    except FamulusError:
        return False


async def close_bus(bus: MessageBus, timeout_s: float = 2) -> None:
    """Leave the bus and wait until the connection is closed."""
    if bus.connected:
        bus.disconnect()
        await asyncio.wait([bus._disconnect_future], timeout=timeout_s)


def on_disconnect(bus: MessageBus, callback: Callable[[], None]) -> None:
    """Call ``callback()`` once when the connection has ended, for whatever reason."""

    def ended(future: asyncio.Future[None]) -> None:
        if not future.cancelled():
            future.exception()  # seen here, so that asyncio does not report it as never retrieved
        callback()

    bus._disconnect_future.add_done_callback(ended)


async def call(
    bus: MessageBus,
    target: Target,
    member: str,
    signature: str = "",
    body: Sequence[Any] = (),
    *,
    timeout_s: float = 25,
) -> list[Any]:
    """Call a method and return the body of its reply; an error reply is raised as its ``FamulusError``."""
    message = Message(
        destination=target.name,
        path=target.path,
        interface=target.interface,
        member=member,
        signature=signature,
        body=list(body),
    )
    if not bus.connected:
        raise Failed("The connection to the bus was lost; connect again.")
    try:
        async with asyncio.timeout(timeout_s):
            reply = await bus.call(message)
    except TimeoutError:
        raise TimedOut(f"{member} was not answered within {timeout_s:g} s; try again later.") from None
    except (OSError, EOFError) as error:
        raise Failed("The connection to the bus was lost; connect again.") from error
    if reply is None:
        raise Failed("The connection to the bus was lost; connect again.")
    if reply.message_type is MessageType.ERROR:
        raise error_of(reply, target.name)
    return list(reply.body)


async def call_bus(bus: MessageBus, member: str, signature: str = "", *body: object, timeout_s: float = 10) -> Any:
    """Call a method of the bus itself and return its one result, or None."""
    result = await call(bus, _BUS, member, signature, body, timeout_s=timeout_s)
    return result[0] if result else None


def error_of(reply: Message, destination: str) -> FamulusError:
    """The error that an error reply of ``destination`` stands for."""
    name = reply.error_name or ""
    text = reply.body[0] if reply.body and isinstance(reply.body[0], str) else "no reason was given"
    if not name.startswith(_FREEDESKTOP):
        return error_from_dbus_name(name, text)
    match name.removeprefix(_FREEDESKTOP):
        case short if short in _GONE:
            return NotFound(f"{destination} does not answer on this bus; start it first.")
        case "AccessDenied":
            return Denied(
                f"The bus does not let you talk to {destination}; join the group famulus "
                "(sudo usermod -aG famulus $USER) and log in again."
            )
        case "LimitsExceeded":
            return Busy("Too many calls are open on this connection; wait for some replies.")
        case "Timeout" | "TimedOut":
            return TimedOut(f"{destination} did not answer in time; try again later.")
    return Failed(f"{destination} refused the call: {text}")


def clean(value: Any) -> Any:
    """The value with what no D-Bus string may hold (NUL, lone surrogates) replaced by U+FFFD.

    The bus throws off whoever sends such a string, so everything that leaves passes through here.
    """
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, Variant):
        return Variant(value.signature, clean(value.value))
    return value
