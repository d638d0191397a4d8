"""An app on the bus as the provider of its capability: org.famulus.Provider1, called by JSON."""

from __future__ import annotations

import json
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus
from pydantic import ValidationError

from ..core.errors import Busy, Failed, FamulusError, NotFound, TimedOut, error_from_dbus_name
from .command import Outcome, OutcomeError
from .provider import CallContext

INTERFACE = "org.famulus.Provider1"
MAX_OUTCOME_BYTES = 256 * 1024
_FREEDESKTOP = "org.freedesktop.DBus.Error."
_GONE = {"ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected"}
_MAX_MESSAGE = 400


class DbusAppProvider:
    """Calls one app over a connection that its owner keeps.

    ``app`` is the app's unique bus name, so that no other program can step into its place; ``path`` its object.
    What the app answers is held against the size limit and the form of an Outcome before anything uses it.
    """

    def __init__(self, bus: MessageBus, app: str, path: str) -> None:
        self._bus = bus
        self.app = app
        self.path = path

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        """The app's outcome; every failure is an outcome with an error."""
        if not self._bus.connected:
            return _refused(_gone(command))
        try:
            reply = await self._bus.call(self._invocation(command, args, context))
        except (OSError, EOFError):
            reply = None
        if reply is None:  # the connection ended
            return _refused(_gone(command))
        if reply.message_type is MessageType.ERROR:
            return _refused(_error(reply, command))
        if reply.signature != "s":
            return _refused(Failed(f"{command} gave no outcome; its app should return one JSON string."))
        return _outcome(reply.body[0], command)

    async def cancel(self, call_id: str) -> None:
        """Tell the app; its answer is not waited for."""
        if self._bus.connected:
            self._bus.send(self._message("CancelCall", "s", [call_id], MessageFlag.NO_REPLY_EXPECTED))

    def _invocation(self, command: str, args: dict[str, Any], context: CallContext) -> Message:
        details = {
            "call": context.call_id,
            "run": context.run_id,
            "language": context.language,
            "source": context.source,
            "session": context.session,
        }
        variants = {key: Variant("s", value) for key, value in details.items()}
        # In ASCII, JSON escapes what a D-Bus string may not hold: NUL and lone surrogates.
        return self._message("Invoke", "ssa{sv}", [command, json.dumps(args), variants], MessageFlag.NO_AUTOSTART)

    def _message(self, member: str, signature: str, body: list[Any], flags: MessageFlag) -> Message:
        return Message(
            destination=self.app,
            path=self.path,
            interface=INTERFACE,
            member=member,
            signature=signature,
            body=body,
            flags=flags,
        )


def _outcome(outcome_json: str, command: str) -> Outcome:
    if len(outcome_json.encode()) > MAX_OUTCOME_BYTES:
        return _refused(Failed(f"{command} gave more than {MAX_OUTCOME_BYTES // 1024} KB; its app should return less."))
    try:
        return Outcome.model_validate(json.loads(outcome_json))
    except (ValidationError, ValueError, RecursionError):
        return _refused(Failed(f"{command} gave no valid outcome; its app should return an object with data and say."))


def _error(reply: Message, command: str) -> FamulusError:
    name = reply.error_name or ""
    text = reply.body[0][:_MAX_MESSAGE] if reply.body and isinstance(reply.body[0], str) else ""
    if name.startswith("org.famulus.Error."):
        return error_from_dbus_name(name, text or f"{command} failed, and its app gave no reason.")
    match name.removeprefix(_FREEDESKTOP):
        case short if short in _GONE:
            return _gone(command)
        case "UnknownMethod" | "UnknownObject" | "UnknownInterface":
            return NotFound(f"{command} cannot run: its app does not serve {INTERFACE} where it said; restart the app.")
        case "LimitsExceeded":
            return Busy(f"{command} cannot run now: too many calls are open; try again in a moment.")
        case "Timeout" | "TimedOut":
            return TimedOut(f"{command} was not answered in time; try again later.")
    # The text of a foreign error may hold anything, so it is not passed on.
    return Failed(f"{command} failed inside its app; the app's log tells why.")


def _gone(command: str) -> NotFound:
    return NotFound(f"{command} cannot run: its app has gone; start it again.")


def _refused(error: FamulusError) -> Outcome:
    return Outcome(error=OutcomeError(code=error.code, message=error.message))
