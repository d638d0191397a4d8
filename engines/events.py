"""What an engine's thread tells its host, and how that looks on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .wire import Message, WireError, pack, unpack


@dataclass(frozen=True)
class Loaded:
    """The engine is constructed."""


@dataclass(frozen=True)
class Piece:
    """One item of a stream."""

    id: int
    value: Any


@dataclass(frozen=True)
class Done:
    """The request ended well; ``value`` is its result, None after a stream."""

    id: int
    value: Any = None


@dataclass(frozen=True)
class Refused:
    """The request, or the load (id 0), ended with a FamulusError."""

    id: int
    code: str
    message: str


@dataclass(frozen=True)
class Ended:
    """The engine's thread is over: closed when asked to, or broken for the reason given."""

    reason: str


Event = Loaded | Piece | Done | Refused | Ended


def to_message(event: Loaded | Piece | Done | Refused) -> Message:
    """The wire form of ``event``; raises ``InvalidArguments`` for a value that cannot travel."""
    match event:
        case Loaded():
            return Message("loaded", 0, {})
        case Piece(id=number, value=value):
            tags, payload = pack([value])
            return Message("piece", number, {"values": tags}, payload)
        case Done(id=number, value=value):
            tags, payload = pack([] if value is None else [value])
            return Message("done", number, {"values": tags}, payload)
        case Refused(id=number, code=code, message=message):
            tags, payload = pack([code, message])
            return Message("refused", number, {"values": tags}, payload)


def from_message(message: Message) -> Event:
    """The event behind ``message``; raises ``WireError`` when there is none."""
    if message.kind == "loaded":
        return Loaded()
    values = unpack(message.fields.get("values"), message.payload)
    match message.kind, values:
        case "piece", (value,):
            return Piece(message.id, value)
        case "done", ():
            return Done(message.id)
        case "done", (value,):
            return Done(message.id, value)
        case "refused", (str(code), str(text)):
            return Refused(message.id, code, text)
    raise WireError(f"A message of the unknown kind {message.kind[:40]!r} came over the wire.")
