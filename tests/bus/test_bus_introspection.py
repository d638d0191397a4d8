"""What the bus tells of the object is what the XML files say; other libraries' clients read and use it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import famulus.daemon.bus.agent1 as agent1_module
import famulus.daemon.bus.capabilities1 as capabilities1_module
import pytest
from bus_rig import AGENT, CAPABILITIES, NAME, PATH
from dbus_fast import Message
from dbus_fast.introspection import Node

_INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"
_FILES = {
    name: Path(module.__file__).parent / f"{name}.xml"
    for name, module in ((AGENT, agent1_module), (CAPABILITIES, capabilities1_module))
}


@pytest.mark.parametrize("name", [AGENT, CAPABILITIES])
async def test_introspection_equals_the_file(client, name):
    (text,) = await client.call("Introspect", interface=_INTROSPECTABLE)
    (served,) = (interface for interface in Node.parse(text).interfaces if interface.name == name)
    (written,) = Node.parse(_FILES[name].read_text()).interfaces
    assert ET.tostring(served.to_xml()) == ET.tostring(written.to_xml())
    assert "<!--" in text, "the documentation travels along"


async def test_every_signal_that_is_sent_is_declared_with_its_types():
    (interface,) = Node.parse(_FILES[AGENT].read_text()).interfaces
    declared = {signal.name: signal.signature for signal in interface.signals}
    source = (Path(agent1_module.__file__).parent / "signals.py").read_text()
    sent = dict(re.findall(r'(?:_send|_emit)\(\s*"(\w+)",\s*"([^"]+)"', source))
    assert sent == declared


async def test_the_tree_leads_to_the_object(client):
    for path, child in (("/", "org"), ("/org", "famulus"), ("/org/famulus", "Agent")):
        reply = await client.bus.call(Message(NAME, path, _INTROSPECTABLE, "Introspect"))
        assert [node.name for node in Node.parse(reply.body[0]).nodes] == [child]
    reply = await client.bus.call(Message(NAME, "/elsewhere", _INTROSPECTABLE, "Introspect"))
    assert Node.parse(reply.body[0]).nodes == []


async def test_ping_is_answered(client):
    assert await client.call("Ping", interface="org.freedesktop.DBus.Peer") == []


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    return output.decode()


@pytest.mark.skipif(shutil.which("busctl") is None, reason="busctl is not installed")
async def test_busctl_reads_and_calls(served):
    busctl = ("busctl", f"--address={served.address}")
    listing = await _run(*busctl, "introspect", NAME, PATH)
    for word in ("org.famulus.Agent1", ".Ask", ".Start", "sa{sv}", ".Health", ".TimerFired", ".Register"):
        assert word in listing
    reply = await _run(*busctl, "call", NAME, PATH, AGENT, "Ask", "sa{sv}", "hello", "1", "language", "s", "en")
    assert reply.startswith('sa{sv} "hello" 6')
    assert "no option" in await _run(*busctl, "call", NAME, PATH, AGENT, "Ask", "sa{sv}", "hello", "1", "x", "s", "en")
    assert (await _run(*busctl, "get-property", NAME, PATH, AGENT, "Version")).strip() == 's "1.2.3"'
    assert PATH in await _run(*busctl, "tree", NAME)


@pytest.mark.skipif(shutil.which("gdbus") is None, reason="gdbus is not installed")
async def test_gdbus_reads_and_calls(served):
    target = ("--address", served.address, "--dest", NAME, "--object-path", PATH)
    assert "interface org.famulus.Agent1" in await _run("gdbus", "introspect", *target)
    reply = await _run("gdbus", "call", *target, "--method", f"{AGENT}.Ask", "hello", "{'language': <'en'>}")
    assert reply.startswith("('hello', {")
    assert "org.famulus.Error.InvalidArguments" in await _run(
        "gdbus", "call", *target, "--method", f"{AGENT}.Ask", "", "{}"
    )
    (listed,) = (await _run("gdbus", "call", *target, "--method", f"{CAPABILITIES}.List", "{}")).splitlines()
    assert json.loads(listed.removeprefix("('").removesuffix("',)")) == []
