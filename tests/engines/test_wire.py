"""Messages survive the wire, and nothing else is taken for one."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from contextlib import suppress
from typing import Any

import pytest
from famulus.core.errors import InvalidArguments
from famulus.engines import wire
from famulus.engines.protocols import Completion, Generation, Transcript
from famulus.engines.wire import EndOfStream, Message, WireError
from hypothesis import given
from hypothesis import strategies as st

VALUES: list[Any] = [
    b"",
    b"\x00\xff" * 9,
    "",
    "é漢\ud800\x00",
    [],
    ["", "é漢"],
    [[0.1, -1e-300], [float("inf"), 3.0]],
    Generation("prefix", "suffix", stop=("a", "b")),
    Transcript("text", 1.5, 0.25),
    Completion("text", "stop", 1, 2, "disk", 0.1, 0.2),
]


def frame(header: bytes, payload: bytes = b"", *, magic: bytes = b"FAM1") -> bytes:
    return struct.pack("!4sII", magic, len(header), len(payload)) + header + payload


def receive(data: bytes) -> Message:
    """What a worker makes of these bytes followed by the end of the stream."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(target=lambda: (ours.sendall(data), ours.shutdown(socket.SHUT_WR)))
        sender.start()
        try:
            return wire.receive(theirs)
        finally:
            theirs.close()
            sender.join()


async def receive_async(data: bytes) -> Message:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await wire.receive_async(reader)


def receive_in_a_loop(data: bytes) -> Message:
    return asyncio.run(receive_async(data))


@pytest.fixture(params=[receive, receive_in_a_loop], ids=["worker", "daemon"])
def side(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_message_survives(side: Any) -> None:
    message = Message("call", 7, {"method": "transcribe", "n": [1, {"a": None}]}, b"\x00\x01" * 50_000)
    assert side(wire.encode(message)) == message


@pytest.mark.parametrize("data", [b"", b"FAM", frame(b'{"kind": "x", "id": 1}', b"abc")[:-1], frame(b"{}")[:-1]])
def test_an_end_is_an_end_wherever_it_comes(side: Any, data: bytes) -> None:
    with pytest.raises(EndOfStream):
        side(data)


@pytest.mark.parametrize(
    "data",
    [
        b"llama_context: n_ctx_seq (2048) < n_ctx_train",
        frame(b"{}", magic=b"FAM2"),
        frame(b"not json"),
        frame(b"[" * 100_000),
        frame(b"\xff\xfe"),
        frame(b'"a string"'),
        frame(b'{"kind": 3, "id": 1}'),
        frame(b'{"kind": "call"}'),
        struct.pack("!4sII", b"FAM1", wire.MAX_HEADER_BYTES + 1, 0),
        struct.pack("!4sII", b"FAM1", 2, wire.MAX_PAYLOAD_BYTES + 1),
    ],
)
def test_garbage_is_told_apart_from_an_end(side: Any, data: bytes) -> None:
    with pytest.raises(WireError):
        side(data)


def test_an_oversized_message_is_not_sent() -> None:
    with pytest.raises(InvalidArguments, match="too large"):
        wire.encode(Message("call", 1, {}, bytes(wire.MAX_PAYLOAD_BYTES + 1)))
    with pytest.raises(InvalidArguments, match="too large"):
        wire.encode(Message("call", 1, {"x": "y" * wire.MAX_HEADER_BYTES}))


def test_values_survive_alone_and_together() -> None:
    for value in VALUES:
        assert wire.unpack(*wire.pack([value])) == (value,)
    assert wire.unpack(*wire.pack(VALUES)) == tuple(VALUES)
    assert wire.unpack(*wire.pack([])) == ()


@pytest.mark.parametrize("value", [None, 3, {"a": 1}, object(), [[1.0], [1.0, 2.0]]])
def test_a_value_that_cannot_travel_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        wire.pack([value])


@pytest.mark.parametrize(
    ("tags", "payload"),
    [
        (None, b""),
        (3, b""),
        ([["bytes", 5]], b"abc"),
        ([["bytes", -1]], b""),
        ([["bytes", 1]], b"abc"),
        ([["bytes", "1"]], b"a"),
        ([["unknown", 0]], b""),
        ([[["list"], 0]], b""),
        ([["text", 1]], b"\xff"),
        ([["texts", 3]], b"[1]"),
        ([["texts", 2]], b"{}"),
        ([["vectors", 2]], b"ab"),
        ([["vectors", 8]], struct.pack("!II", 1 << 31, 0)),
        ([["vectors", 8]], struct.pack("!II", 1 << 31, 1 << 31)),
        ([["Transcript", 2]], b"{}"),
        ([["Transcript", 2]], b"[]"),
        ([["Generation", 2]], b"{}"),
        ([["Generation", 2]], b"[]"),
    ],
)
def test_values_that_are_no_values_are_refused(tags: Any, payload: bytes) -> None:
    with pytest.raises(WireError):
        wire.unpack(tags, payload)


def test_what_was_said_is_not_in_the_error() -> None:
    payload = json.dumps({"text": "my secret", "extra": "my secret"}).encode()
    with pytest.raises(WireError) as caught:
        wire.unpack([["Transcript", len(payload)]], payload)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_one_of_two_errors(data: bytes) -> None:
    for prefix in (b"", b"FAM1\x00\x00\x00", b"FAM1\x00\x00\x00\x16\x00\x00\x00\x03"):
        with suppress(EndOfStream, WireError):
            receive(prefix + data)


@given(
    st.lists(st.tuples(st.sampled_from(["bytes", "text", "texts", "vectors", "Generation"]), st.binary(max_size=60)))
)
def test_any_payload_gives_values_or_an_error(chunks: list[tuple[str, bytes]]) -> None:
    with suppress(WireError):
        wire.unpack([[tag, len(chunk)] for tag, chunk in chunks], b"".join(chunk for _, chunk in chunks))
