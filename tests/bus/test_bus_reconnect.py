"""The bus goes and comes back; the name is taken; there is no bus at all."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from bus_rig import CAPABILITIES, NAME, PATH, Served, connected, program, until
from dbus_fast import Message
from famulus.capabilities.manifest import parse_manifest
from famulus.core.errors import Denied, Failed, InvalidArguments
from famulus.daemon.agent.run import Event
from famulus.daemon.bus import capabilities1
from famulus.daemon.bus.service import BusService

_OWNER = """
import asyncio, sys
from famulus.client.connection import call_bus, open_bus
async def main():
    bus = await open_bus(sys.argv[1])
    await call_bus(bus, "RequestName", "su", "org.famulus.Agent", 4)
    print("owned")
    await asyncio.sleep(30)
asyncio.run(main())
"""
MANIFEST = '{"name": "lamp", "commands": [{"name": "lamp.on", "description": "Turn the lamp on"}]}'


async def test_a_restarted_bus_finds_the_service_again_without_those_who_left(served, private_daemon):
    async with connected(private_daemon.address) as before:
        await before.call("Register", "so", MANIFEST, "/app", interface=CAPABILITIES)
        await before.call("Subscribe")
        (run,) = await before.call("Start", "sa{sv}", "wait", {})
        private_daemon.stop()
        await until(lambda: not served.service.connected)
        await until(lambda: served.agent.cancelled == [run])
        assert served.registry.commands() == ()
    private_daemon.start()
    await until(lambda: served.service.connected, 10)
    async with connected(private_daemon.address) as after:
        reply, _ = await after.ask("hello again")
        assert reply == "hello again"


async def test_words_of_an_earlier_bus_do_not_reach_a_name_that_is_used_again(served, private_daemon):
    async with connected(private_daemon.address) as before:
        await before.call("Start", "sa{sv}", "wait", {})
        name = before.bus.unique_name
        private_daemon.stop()
        await until(lambda: not served.service.connected)
    private_daemon.start()
    await until(lambda: served.service.connected, 10)
    async with connected(private_daemon.address) as after:
        assert after.bus.unique_name == name
        served.agent.publish(Event("token", "r1", name, {"text": "secret"}))
        await after.call("Status")
        assert after.signals == []


async def test_what_was_under_way_when_the_bus_went_does_not_end_after_it(served, private_daemon, monkeypatch):
    """A manifest is read in a thread; its app has gone by the time that is done."""

    def slowly(text):
        time.sleep(0.3)
        return parse_manifest(text)

    monkeypatch.setattr(capabilities1, "parse_manifest", slowly)
    async with connected(private_daemon.address) as before:
        body = [MANIFEST, "/app"]
        before.bus.send(Message(NAME, PATH, CAPABILITIES, "Register", signature="so", body=body))
        await until(lambda: served.service._server._open)
        private_daemon.stop()
        await until(lambda: not served.service.connected)
    private_daemon.start()
    await until(lambda: served.service.connected, 10)
    await asyncio.sleep(0.3)
    assert served.registry.commands() == ()


async def test_the_service_can_be_stopped_while_the_bus_is_away(served, private_daemon):
    private_daemon.stop()
    await until(lambda: not served.service.connected)
    await asyncio.wait_for(served.service.stop(), 5)


async def test_a_second_famulus_is_refused_with_the_pid_of_the_first(private_daemon):
    async with program(_OWNER, private_daemon.address) as owner:
        assert owner.stdout is not None
        await owner.stdout.readline()
        served = Served(private_daemon)
        with pytest.raises(Denied, match=rf"another famulus runs \(pid {owner.pid}\)"):
            await served.service.start()
        assert not served.service.connected
        await served.service.stop()


async def test_a_name_that_becomes_free_again_is_taken_after_a_reconnection(served, private_daemon):
    private_daemon.stop()
    await until(lambda: not served.service.connected)
    private_daemon.start()
    async with program(_OWNER, private_daemon.address):
        await asyncio.sleep(0.5)
    await until(lambda: served.service.connected, 12)


async def test_without_a_bus_the_start_says_so(tmp_path):
    service = _service(f"unix:path={tmp_path / 'nothing'}")
    with pytest.raises(Failed, match="cannot be reached"):
        await service.start()
    await service.stop()


async def test_the_address_none_means_no_bus():
    service = _service("none")
    await service.start()
    assert not service.connected
    service.refresh()
    service.timer_fired("t", "")
    await service.stop()


async def test_an_address_that_is_none_is_refused():
    with pytest.raises(InvalidArguments, match="bus address"):
        await _service("sesion").start()


async def test_auto_takes_the_session_bus_then_the_system_bus(private_daemon, monkeypatch, tmp_path):
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", private_daemon.address)
    await _started_and_stopped("auto")
    await _started_and_stopped("session")
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(private_daemon.socket.parent))  # its socket is called bus
    await _started_and_stopped("session")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "empty"))
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", private_daemon.address)
    await _started_and_stopped("auto")
    await _started_and_stopped("system")
    with pytest.raises(Failed, match="no session bus"):
        await _service("session").start()


def _service(address: str) -> BusService:
    from bus_rig import FakeAgent
    from famulus.capabilities.registry import Registry

    return BusService(
        address, NAME, agent=FakeAgent(), voice=None, registry=Registry(), status=dict, version=str(os.getpid())
    )


async def _started_and_stopped(address: str) -> None:
    service = _service(address)
    await service.start()
    assert service.connected
    await service.stop()
