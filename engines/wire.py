"""Framed messages between the daemon and a worker: a small JSON header and a binary payload, sizes bounded.

A frame is ``b"FAM1"``, the header's length and the payload's length (big-endian u32 each), the header (a JSON
object with ``kind`` and ``id``) and the payload. Values travel in the payload, each with a tag in the header,
so audio is never turned into text and what people say never stands in a header.
"""

from __future__ import annotations

import json
import socket
import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import Failed, InvalidArguments
from .protocols import Completion, Generation, Transcript

MAX_HEADER_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 64 << 20

_MAGIC = b"FAM1"
_PREFIX = struct.Struct("!4sII")
_VECTORS = struct.Struct("!II")
_RECORDS: dict[str, type[Any]] = {cls.__name__: cls for cls in (Generation, Transcript, Completion)}


class EndOfStream(Failed):
    """The other side closed the wire; nothing is wrong with what came before."""


class WireError(Failed):
    """What came over the wire is not a message."""


@dataclass(frozen=True)
class Message:
    """One message. ``fields`` and ``kind`` are the header; ``id`` names the request, 0 for the worker itself."""

    kind: str
    id: int
    fields: dict[str, Any]
    payload: bytes = b""


def encode(message: Message) -> bytes:
    """The frame of ``message``; raises ``InvalidArguments`` when it is too large for the wire."""
    header = json.dumps({**message.fields, "kind": message.kind, "id": message.id}).encode()
    if len(header) > MAX_HEADER_BYTES or len(message.payload) > MAX_PAYLOAD_BYTES:
        raise InvalidArguments(
            f"A message of {len(header)} + {len(message.payload)} bytes is too large for a model's worker; "
            f"send at most {MAX_PAYLOAD_BYTES} bytes at once."
        )
    return b"".join((_PREFIX.pack(_MAGIC, len(header), len(message.payload)), header, message.payload))


def receive(sock: socket.socket) -> Message:
    """The next message, waiting for it; raises :class:`EndOfStream` or :class:`WireError`."""
    header_size, payload_size = _sizes(_exactly(sock, _PREFIX.size))
    header = _exactly(sock, header_size)
    return _message(header, _exactly(sock, payload_size))


async def receive_async(reader: StreamReader) -> Message:
    """The next message; raises :class:`EndOfStream` or :class:`WireError`."""
    try:
        header_size, payload_size = _sizes(await reader.readexactly(_PREFIX.size))
        header = await reader.readexactly(header_size)
        return _message(header, await reader.readexactly(payload_size))
    except (IncompleteReadError, ConnectionError) as error:
        raise EndOfStream("The wire was closed.") from error


def pack(values: Sequence[Any]) -> tuple[list[list[Any]], bytes]:
    """Tags with sizes, and the joined bytes, of bytes, str, list[str], vectors and the records of protocols.py."""
    tags: list[list[Any]] = []
    chunks: list[bytes] = []
    for value in values:
        tag, chunk = _pack_one(value)
        tags.append([tag, len(chunk)])
        chunks.append(chunk)
    return tags, b"".join(chunks)


def unpack(tags: Any, payload: bytes) -> tuple[Any, ...]:
    """The values that :func:`pack` took; raises :class:`WireError` for anything else."""
    values: list[Any] = []
    offset = 0
    try:
        for tag, size in tags:
            if not isinstance(size, int) or not 0 <= size <= len(payload) - offset:
                raise WireError("A value on the wire is longer than its message.")
            values.append(_unpack_one(tag, payload[offset : offset + size]))
            offset += size
    except (TypeError, ValueError, KeyError, RecursionError, struct.error) as error:
        # Only the kind of error is told: its text could hold what a person said.
        raise WireError(f"A value on the wire cannot be read ({type(error).__name__}).") from None
    if offset != len(payload):
        raise WireError("A message on the wire has bytes that belong to no value.")
    return tuple(values)


def _sizes(prefix: bytes) -> tuple[int, int]:
    magic, header_size, payload_size = _PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise WireError("Bytes on the wire are not the start of a message.")
    if header_size > MAX_HEADER_BYTES or payload_size > MAX_PAYLOAD_BYTES:
        raise WireError(f"A message on the wire claims {header_size} + {payload_size} bytes, which is too large.")
    return header_size, payload_size


def _message(header: bytes, payload: bytes) -> Message:
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError):
        raise WireError("A header on the wire is not JSON.") from None
    if not isinstance(fields, dict):
        raise WireError("A header on the wire is not a JSON object.")
    kind, number = fields.pop("kind", None), fields.pop("id", None)
    if not isinstance(kind, str) or not isinstance(number, int):
        raise WireError("A header on the wire has no kind or no id.")
    return Message(kind, number, fields, payload)


def _exactly(sock: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        try:
            count = sock.recv_into(view)
        except ConnectionError:
            count = 0
        if not count:
            raise EndOfStream("The wire was closed.")
        view = view[count:]
    return bytes(buffer)


def _pack_one(value: Any) -> tuple[str, bytes]:
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value)
    if isinstance(value, str):
        return "text", value.encode("utf-8", "surrogatepass")
    if type(value).__name__ in _RECORDS:
        return type(value).__name__, json.dumps(asdict(value)).encode()
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return "texts", json.dumps(list(value)).encode()
        width = len(value[0])
        flat = [float(number) for vector in value for number in vector]
        if len(flat) != width * len(value):
            raise InvalidArguments("The vectors are not all of one length.")
        return "vectors", _VECTORS.pack(len(value), width) + struct.pack(f"!{len(flat)}d", *flat)
    raise InvalidArguments(f"A value of type {type(value).__name__} cannot be sent to or from a model's worker.")


def _unpack_one(tag: str, chunk: bytes) -> Any:
    if tag == "bytes":
        return chunk
    if tag == "text":
        return chunk.decode("utf-8", "surrogatepass")
    if tag == "texts":
        texts = json.loads(chunk)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(tag)
        return texts
    if tag == "vectors":
        count, width = _VECTORS.unpack_from(chunk)
        flat = struct.unpack(f"!{count * width}d", chunk[_VECTORS.size :])
        return [list(flat[start : start + width]) for start in range(0, len(flat), width)]  # width 0: ValueError
    record = json.loads(chunk)
    if tag == "Generation":
        record["stop"] = tuple(record["stop"])
    return _RECORDS[tag](**record)
