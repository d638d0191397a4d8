"""Bytes that no library sends: the bus or the service refuses them, and the service lives on."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from pathlib import Path

import pytest
from bus_rig import AGENT, NAME, PATH, connected
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class RawClient:
    """Sends whole messages as bytes."""

    def __init__(self, path: Path) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(5)
        self._sock.connect(str(path))
        self._sock.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\nBEGIN\r\n")
        assert self._sock.recv(100).startswith(b"OK")
        hello = Message(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus", "Hello"], serial=1)
        self._sock.sendall(bytes(hello._marshall(False)))
        assert self._sock.recv(4096)

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def thrown_off(self) -> bool:
        """Whether the bus ends the connection now."""
        try:
            while self._sock.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self._sock.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def ask(text: str, serial: int = 2) -> bytes:
    return bytes(Message(NAME, PATH, AGENT, "Ask", signature="sa{sv}", body=[text, {}], serial=serial)._marshall(False))


@pytest.mark.parametrize("bad", [b"\xff\xfe\xfd", b"\xed\xa0\x80", b"a\x00b", b"\xc0\xaf", b"\xf4\x90\x80\x80"])
async def test_text_that_is_no_utf8_or_holds_nul_never_gets_past_the_bus(served, private_daemon, client, bad):
    placeholder = "Q" * len(bad)
    raw = await asyncio.to_thread(RawClient, private_daemon.socket)
    raw.send(ask(placeholder).replace(placeholder.encode(), bad))
    assert await asyncio.to_thread(raw.thrown_off)
    raw.close()
    assert (await client.ask("still here"))[0] == "still here"
    assert [utterance.text for utterance in served.agent.utterances] == ["still here"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 4096,
        os.urandom(4096),
        struct.pack("<BBBBIII", 108, 1, 0, 1, 2**32 - 1, 7, 2**32 - 1),
        ask("cut off")[:-9],
    ],
)
async def test_garbage_ends_the_connection_of_its_sender_only(served, private_daemon, client, garbage):
    raw = await asyncio.to_thread(RawClient, private_daemon.socket)
    raw.send(garbage)
    raw.close()
    assert (await client.ask("still here"))[0] == "still here"


async def test_a_text_of_a_megabyte_is_refused_by_its_length(client):
    assert (await client.error("Ask", "sa{sv}", "x" * 2**20, {}))[0] == "InvalidArguments"


async def test_deep_and_odd_values_in_options_are_refused_and_harmless(served, client):
    deep = Variant("i", 1)
    for _ in range(60):
        deep = Variant("v", deep)
    for value in (deep, Variant("a{sv}", {}), Variant("(ii)", [1, 2]), Variant("ay", b"\0\1"), Variant("aai", [[1]])):
        assert (await client.error("Ask", "sa{sv}", "hello", {"language": value}))[0] == "InvalidArguments"


async def test_unknown_flags_and_header_fields_are_ignored(served, private_daemon, client):
    data = bytearray(ask("with flags"))
    data[2] = 0xF0
    raw = await asyncio.to_thread(RawClient, private_daemon.socket)
    raw.send(bytes(data))
    big_endian = struct.pack(">BBBBIII", ord("B"), 1, 0, 1, 0, 3, 0)
    fields = b""
    for code, kind, value in ((1, b"o", PATH), (2, b"s", AGENT), (3, b"s", "Status"), (6, b"s", NAME), (77, b"s", "x")):
        fields += b"\0" * (-len(fields) % 8)
        fields += bytes([code, 1]) + kind + b"\0" + struct.pack(">I", len(value)) + value.encode() + b"\0"
    raw.send(big_endian[:12] + struct.pack(">I", len(fields)) + fields + b"\0" * (-len(fields) % 8))
    for _ in range(50):
        if served.agent.utterances:
            break
        await asyncio.sleep(0.02)
    raw.close()
    assert [utterance.text for utterance in served.agent.utterances] == ["with flags"]
    assert (await client.ask("still here"))[0] == "still here"


async def test_file_descriptors_that_nobody_asked_for_do_not_pile_up(served, private_daemon):
    bus = await MessageBus(bus_address=private_daemon.address, negotiate_unix_fd=True).connect()
    before = open_descriptors()
    reading, writing = os.pipe()
    for member, signature, body in (("Transcribe", "h", [0]), ("Ask", "sa{sv}", ["x", {"fd": Variant("h", 0)}])):
        for _ in range(20):
            message = Message(NAME, PATH, AGENT, member, signature=signature, body=body, unix_fds=[reading])
            reply = await asyncio.wait_for(bus.call(message), 5)
            assert reply.error_name == "org.freedesktop.DBus.Error.NotSupported"
    for descriptor in (reading, writing):
        os.close(descriptor)
    assert open_descriptors() <= before
    bus.disconnect()
    await bus.wait_for_disconnect()
    async with connected(private_daemon.address) as client:
        assert (await client.ask("still here"))[0] == "still here"


_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
_VALUES = st.one_of(
    _NAMES.map(lambda text: Variant("s", text)),
    st.floats().map(lambda number: Variant("d", number)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: Variant("x", number)),
    st.booleans().map(lambda value: Variant("b", value)),
    st.lists(_NAMES, max_size=3).map(lambda texts: Variant("as", texts)),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=_NAMES,
    options=st.dictionaries(st.sampled_from(["language", "session", "timeout_s"]) | _NAMES, _VALUES, max_size=3),
)
async def test_every_text_and_option_gets_a_reply_or_a_typed_error(client, text, options):
    reply = await client.raw("Ask", "sa{sv}", text, options)
    if reply.message_type is MessageType.ERROR:
        assert reply.error_name.startswith("org.famulus.Error.")
        assert reply.error_name != "org.famulus.Error.Failed"
