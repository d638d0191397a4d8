"""org.famulus.Capabilities1: how apps tell what they can do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dbus_fast import Variant
from dbus_fast.aio import MessageBus

from ...capabilities.command import Capability
from ...capabilities.dbus_app import DbusAppProvider
from ...capabilities.manifest import parse_manifest
from ...client.objects import ServedInterface
from ...core.errors import Busy, Denied, Failed, InvalidArguments, NotFound
from .options import only, text_option
from .ports import Registry
from .results import to_json

XML = (Path(__file__).parent / "org.famulus.Capabilities1.xml").read_text(encoding="utf-8")
NAME = "org.famulus.Capabilities1"
_LOG = logging.getLogger(__name__)
MAX_MANIFEST_BYTES = 256 * 1024
MAX_PER_CONNECTION = 32


class Capabilities1:
    """The methods of the interface, and who registered what. ``bus()`` is the connection of the moment."""

    def __init__(self, registry: Registry, bus: Callable[[], MessageBus | None]) -> None:
        self._registry = registry
        self._bus = bus
        self._apps: dict[str, DbusAppProvider] = {}
        self.interface = ServedInterface(
            XML, {"Register": self._register, "Unregister": self._unregister, "List": self._list}
        )

    def drop(self, name: str) -> None:
        """A connection has gone, and its capabilities with it."""
        for capability in [capability for capability, provider in self._apps.items() if provider.app == name]:
            self._remove(capability)

    def drop_all(self) -> None:
        for capability in list(self._apps):
            self._remove(capability)

    async def _register(self, sender: str, manifest_json: str, path: str) -> Sequence[Any]:
        if len(manifest_json.encode()) > MAX_MANIFEST_BYTES:
            raise InvalidArguments(f"The manifest is longer than {MAX_MANIFEST_BYTES // 1024} KB; split it.")
        # In a thread: a large manifest takes longer than the loop may be held up.
        capability = await asyncio.to_thread(parse_manifest, manifest_json)
        bus = self._bus()
        if bus is None:
            raise Failed("The connection to the bus was lost; register again.")
        known = self._apps.get(capability.name)
        if known is not None and known.app == sender and known.path == path:
            self._registry.register(capability, known)
            return []
        self._check_free(capability.name, sender)
        if known is not None:
            self._remove(capability.name)
        provider = DbusAppProvider(bus, sender, path)
        self._registry.register(capability, provider)
        self._apps[capability.name] = provider
        _LOG.info(
            "%s offers %s: %d commands", sender, capability.name, len(capability.commands), extra={"CALLER": sender}
        )
        return []

    def _check_free(self, name: str, sender: str) -> None:
        """Raise ``Denied`` where the name is another's, ``Busy`` where the caller offers too much already."""
        known = self._apps.get(name)
        if known is not None and known.app != sender:
            raise Denied(f"Another app offers {name} already; choose another name.")
        if known is None and any(capability.name == name for capability in self._registry.capabilities()):
            raise Denied(f"{name} belongs to famulus itself; choose another name.")
        if sum(provider.app == sender for provider in self._apps.values()) >= MAX_PER_CONNECTION:
            raise Busy(f"One connection may offer {MAX_PER_CONNECTION} capabilities; put more commands into each.")

    def _unregister(self, sender: str, name: str) -> Sequence[Any]:
        known = self._apps.get(name)
        if known is None or known.app != sender:
            raise NotFound("There is no capability of yours with that name.")
        self._remove(name)
        return []

    def _list(self, sender: str, options: dict[str, Variant]) -> Any:
        only(options, ("name",))
        name = text_option(options, "name", "")
        listed = [capability for capability in self._registry.capabilities() if not name or capability.name == name]
        return self._describe(listed)

    async def _describe(self, capabilities: Sequence[Capability]) -> Sequence[Any]:
        # In a thread, for the same reason.
        return [await asyncio.to_thread(lambda: to_json([c.model_dump(mode="json") for c in capabilities]))]

    def _remove(self, capability: str) -> None:
        app = self._apps.pop(capability).app
        self._registry.unregister(capability)
        _LOG.info("%s offers %s no more", app, capability, extra={"CALLER": app})
