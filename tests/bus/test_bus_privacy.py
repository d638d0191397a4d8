"""Another user on the bus: hears no words that are not its own, stops and removes nothing that is not its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil

import pytest
from bus_rig import CAPABILITIES, line_of, program, until
from famulus.daemon.agent.run import Event
from famulus.daemon.bus import identity

_NOBODY = 65534
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv to act as another user"
)

# Speaks raw D-Bus, so that it needs nothing that this user might not be allowed to read.
_STRANGER = """
import json, os, socket, struct, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
sock.settimeout(15)
sock.sendall(b"\\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\\r\\n")
assert sock.recv(100).startswith(b"OK")
sock.sendall(b"BEGIN\\r\\n")
buffer = b""
serial = 0

def text(value, kind="I"):
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\\0"

def pad(data, size):
    return data + b"\\0" * (-len(data) % size)

def call(destination, path, interface, member, signature="", body=b""):
    global serial
    serial += 1
    fields = b""
    for code, kind, value in ((1, "o", path), (2, "s", interface), (3, "s", member), (6, "s", destination)):
        fields = pad(fields, 8) + bytes([code, 1]) + kind.encode() + b"\\0" + text(value)
    if signature:
        fields = pad(fields, 8) + bytes([8, 1]) + b"g\\0" + bytes([len(signature)]) + signature.encode() + b"\\0"
    head = struct.pack("<BBBBIII", 108, 1, 0, 1, len(body), serial, len(fields))
    sock.sendall(pad(head + fields, 8) + body)
    while True:
        kind, reply_to, name, data = message()
        if kind in (2, 3) and reply_to == serial:
            return kind == 2, name, data

def message():
    global buffer
    while len(buffer) < 16 or len(buffer) < size():
        got = sock.recv(65536)
        assert got, "thrown off the bus"
        buffer += got
    whole, buffer = buffer[:size()], buffer[size():]
    seen.append(whole)
    length = struct.unpack_from("<I", whole, 12)[0]
    reply_to, name, at = 0, "", 16
    while at < 16 + length:
        at += -at % 8
        code, kind = whole[at], whole[at + 2:at + 3]
        at += 4
        if kind == b"g":
            at += whole[at] + 2
        else:
            at += -at % 4
            number = struct.unpack_from("<I", whole, at)[0]
            at += 4
            if kind == b"u":
                reply_to = number if code == 5 else reply_to
            else:
                name = whole[at:at + number].decode() if code == 4 else name
                at += number + 1
    return whole[1], reply_to, name, whole[-struct.unpack_from("<I", whole, 4)[0]:]

def size():
    body, _, fields = struct.unpack_from("<III", buffer, 4)
    return 16 + fields + -fields % 8 + body

seen = []
BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
AGENT = ("org.famulus.Agent", "/org/famulus/Agent", "org.famulus.Agent1")
call(*BUS, "Hello")
print(json.dumps("ready"))
for line in sys.stdin:
    order = json.loads(line)
    if order == "seen":
        print(json.dumps([data.decode("latin-1") for data in seen]))
    elif order == "match":
        rule = text("eavesdrop='true'")
        answers = [call(*BUS, "AddMatch", "s", rule)[:2], call(*BUS, "AddMatch", "s", text("type='signal'"))[:2]]
        print(json.dumps(answers))
    else:
        interface, member, *words = order
        target = (*AGENT[:2], interface)
        body = b""
        for word in words:
            body = pad(body, 4) + text(word)
        print(json.dumps(call(*target, member, "s" * len(words), body)[:2]))
"""


@pytest.fixture
async def stranger(served, private_daemon):
    prefix = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
    async with program(_STRANGER, str(private_daemon.socket), prefix=prefix, python="/usr/bin/python3") as process:
        assert json.loads(await line_of(process)) == "ready"
        yield process


async def order(stranger: asyncio.subprocess.Process, what: object):
    assert stranger.stdin is not None
    stranger.stdin.write(json.dumps(what).encode() + b"\n")
    return json.loads(await line_of(stranger))


async def test_another_user_hears_no_words(served, client, stranger):
    assert await order(stranger, ["org.famulus.Agent1", "Subscribe"]) == [True, ""]
    await order(stranger, "match")
    await client.ask("tell nobody of the pineapple")
    await client.ask("tokens 3")
    served.agent.publish(Event("wake", data={"keyword": "hey_jarvis", "score": 0.5}))
    served.agent.publish(Event("transcript", "v1", "", {"text": "pineapple", "final": True}))
    served.agent.publish(Event("stage", "v1", "", {"stage": "intent", "text": "pineapple"}))
    served.agent.publish(Event("token", "v1", "", {"text": "pineapple"}))
    served.agent.publish(Event("finished", "v1", "", {"status": "done", "reply": "pineapple", "calls": []}))
    served.service.timer_fired("t1", "pineapple")
    await order(stranger, ["org.famulus.Agent1", "Status"])
    seen = "\n".join(await order(stranger, "seen"))
    assert "pineapple" not in seen
    assert "Token" not in seen
    assert "WakeDetected" in seen
    assert "Stage" in seen


async def test_another_user_cannot_cancel_what_is_not_its_own(served, client, stranger):
    (run,) = await client.call("Start", "sa{sv}", "wait", {})
    refused = [False, "org.famulus.Error.NotFound"]
    assert await order(stranger, ["org.famulus.Agent1", "Cancel", run]) == refused
    assert await order(stranger, ["org.famulus.Agent1", "Cancel", "no-such-run"]) == refused
    assert served.agent.open_runs == 1
    await client.call("Cancel", "s", run)
    await until(lambda: served.agent.open_runs == 0)


async def test_another_user_cannot_unregister_what_is_not_its_own(served, client, stranger):
    manifest = json.dumps({"name": "lamp", "commands": [{"name": "lamp.on", "description": "On"}]})
    await client.call("Register", "so", manifest, "/app", interface=CAPABILITIES)
    refused = [False, "org.famulus.Error.NotFound"]
    assert await order(stranger, ["org.famulus.Capabilities1", "Unregister", "lamp"]) == refused
    assert len(served.registry.commands()) == 1


async def test_a_privileged_caller_may_stop_the_run_of_another(served, client, stranger):
    await client.call("Subscribe")
    run = served.agent.start(_utterance("wait", ":1.999")).id
    served.service._agent1._runs[run] = _open_run(":1.999")
    await client.call("Cancel", "s", run)
    await until(lambda: served.agent.cancelled == [run])
    assert "Stage" in client.names()


async def test_the_admin_group_is_privileged(monkeypatch):
    monkeypatch.setattr(identity, "ADMIN_GROUP", "daemon")
    gid = identity.grp.getgrnam("daemon").gr_gid
    assert identity._is_privileged(_NOBODY, [gid])
    assert not identity._is_privileged(_NOBODY, [_NOBODY])
    assert not identity._is_privileged(_NOBODY, None)
    assert not identity._is_privileged(4_000_000, None)
    assert identity._is_privileged(0, [])
    assert identity._is_privileged(os.geteuid(), [])


async def test_who_has_left_cannot_be_identified(served):
    from famulus.core.errors import FamulusError

    with pytest.raises(FamulusError):
        await served.service._identities.caller(":1.4242")
    assert ":1.4242" not in served.service._identities._known


def _utterance(text: str, owner: str):
    from famulus.daemon.agent.run import Utterance

    return Utterance(text, owner=owner)


def _open_run(owner: str):
    from famulus.daemon.bus.agent1 import _OpenRun

    return _OpenRun(owner, owner)
