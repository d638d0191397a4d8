"""A desktop has a session bus, and famulus may run on the system bus: `auto` finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from bus_rig import NAME, FakeAgent, PrivateDaemon, until
from famulus.capabilities.registry import Registry
from famulus.client import App, connect
from famulus.core.errors import NotFound
from famulus.daemon.bus.service import BusService


@pytest.fixture
def buses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PrivateDaemon, PrivateDaemon]]:
    """The session's and the system's, both private."""
    made = []
    for kind in ("SESSION", "SYSTEM"):
        (tmp_path / kind).mkdir(mode=0o711)
        bus = PrivateDaemon(tmp_path / kind)
        bus.start()
        made.append(bus)
        monkeypatch.setenv(f"DBUS_{kind}_BUS_ADDRESS", bus.address)
    yield made[0], made[1]
    for bus in made:
        bus.stop()


def service_on(bus: PrivateDaemon, registry: Registry) -> BusService:
    return BusService(bus.address, NAME, agent=FakeAgent(), voice=None, registry=registry, status=dict, version="7")


@pytest.mark.parametrize("place", [0, 1], ids=["session", "system"])
async def test_auto_finds_famulus_on_either_bus(buses: tuple[PrivateDaemon, PrivateDaemon], place: int) -> None:
    service = service_on(buses[place], Registry())
    await service.start()
    async with connect() as agent:
        assert (await agent.properties())["Version"] == "7"
    await service.stop()


async def test_without_famulus_on_any_bus_the_error_says_to_start_it(
    buses: tuple[PrivateDaemon, PrivateDaemon],
) -> None:
    async with connect() as agent:
        with pytest.raises(NotFound, match="start it"):
            await agent.properties()


async def test_an_app_that_was_first_finds_famulus_on_the_system_bus(
    buses: tuple[PrivateDaemon, PrivateDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("famulus.client.app._LOOK_AGAIN_S", 0.1)
    app, registry = App("early"), Registry()

    @app.command("early.bird", "Be early")
    def bird() -> None: ...

    running = asyncio.create_task(app.run())
    await asyncio.sleep(0.3)
    service = service_on(buses[1], registry)
    await service.start()
    await until(registry.commands, 10)
    app.stop()
    await running
    assert registry.commands() == ()
    await service.stop()
