"""The famulus that runs, as the bus tells: is there one, whose is it, what does it say. Starts none."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from ...client.agent import AGENT, PATH
from ...client.connection import Target, call, call_bus, close_bus, open_bus, resolve_address
from ...core.errors import FamulusError
from ..settings import Bus
from .machine import Machine

_BUS_S, _ANSWER_S = 3.0, 5.0


@dataclass(frozen=True)
class Service:
    """``address`` is ``""`` where the settings want no bus; ``problem`` says why there is no bus.

    ``owner_uid`` is None while nobody owns the name. ``status`` is what ``Status`` gave; where it gave nothing,
    ``refusal`` holds the code of the error and ``refused_because`` its sentence.
    """

    address: str = ""
    is_system_bus: bool = False
    problem: str = ""
    owner_uid: int | None = None
    status: dict[str, Any] | None = None
    refusal: str = ""
    refused_because: str = ""


def look_for_service(machine: Machine, bus: Bus) -> Service:
    """Ask the bus that the settings name, and the service on it. Takes ten seconds at most; raises nothing."""
    wanted = bus.address
    if wanted == "auto" and machine.system_unit and not machine.has_user_unit:
        wanted = "system"  # a system service sees no session bus
    try:
        address = resolve_address(wanted)
        is_system_bus = address == resolve_address("system")
    except FamulusError as error:
        return Service(wanted, problem=error.message)
    if not address:
        return Service()
    try:
        return asyncio.run(_ask(address, is_system_bus, bus.name))
    except FamulusError as error:
        return Service(address, is_system_bus, error.message)


async def _ask(address: str, is_system_bus: bool, name: str) -> Service:
    bus = await open_bus(address, timeout_s=_BUS_S)
    try:
        if not await call_bus(bus, "NameHasOwner", "s", name, timeout_s=_BUS_S):
            return Service(address, is_system_bus)
        uid = await call_bus(bus, "GetConnectionUnixUser", "s", name, timeout_s=_BUS_S)
        try:
            (text,) = await call(bus, Target(name, PATH, AGENT), "Status", timeout_s=_ANSWER_S)
        except FamulusError as error:
            return Service(address, is_system_bus, "", uid, None, error.code, error.message)
        return Service(address, is_system_bus, "", uid, dict(json.loads(text)))
    finally:
        await close_bus(bus, timeout_s=1)
