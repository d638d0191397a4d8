"""Who is behind a unique bus name: user, groups, process."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
from dataclasses import dataclass

from dbus_fast import Variant
from dbus_fast.aio import MessageBus

from ...client.connection import call_bus
from ...core.errors import Denied, FamulusError

ADMIN_GROUP = "famulus-admin"


@dataclass(frozen=True)
class Caller:
    """A connection of the bus as the bus itself vouches for it. ``pid`` is 0 where it is not known.

    A ``privileged`` caller may hear and stop what is not its own: the daemon's own user, root, and members of
    the group famulus-admin.
    """

    name: str
    uid: int
    pid: int
    privileged: bool


class Identities:
    """Looks callers up once each, until they leave the bus."""

    def __init__(self) -> None:
        self._bus: MessageBus | None = None
        self._known: dict[str, asyncio.Task[Caller]] = {}

    def attach(self, bus: MessageBus) -> None:
        """Use this connection; its unique names have nothing to do with those of an earlier one."""
        self._bus = bus
        self.clear()

    async def caller(self, name: str) -> Caller:
        """Raises ``Denied`` when the bus does not tell who that is, as for one that has just left."""
        task = self._known.get(name)
        if task is None:
            task = self._known[name] = asyncio.create_task(self._look_up(name))
        try:
            return await asyncio.shield(task)
        except FamulusError:
            self.forget(name)
            raise

    def forget(self, name: str) -> None:
        """The name has left the bus."""
        if task := self._known.pop(name, None):
            task.cancel()

    def clear(self) -> None:
        for name in list(self._known):
            self.forget(name)

    async def _look_up(self, name: str) -> Caller:
        if self._bus is None:
            raise Denied("The caller cannot be identified without a bus.")
        credentials: dict[str, Variant] = await call_bus(self._bus, "GetConnectionCredentials", "s", name)
        values = {key: variant.value for key, variant in credentials.items()}
        uid = values.get("UnixUserID")
        if not isinstance(uid, int):
            raise Denied("The bus does not tell who the caller is, so the call is refused.")
        privileged = await asyncio.to_thread(_is_privileged, uid, values.get("UnixGroupIDs"))
        return Caller(name, uid, int(values.get("ProcessID", 0)), privileged)


def _is_privileged(uid: int, groups: list[int] | None) -> bool:
    if uid in {0, os.geteuid()}:
        return True
    try:
        admin = grp.getgrnam(ADMIN_GROUP).gr_gid
        if groups is None:  # an old bus does not tell: ask the user database
            user = pwd.getpwuid(uid)
            groups = os.getgrouplist(user.pw_name, user.pw_gid)
    except KeyError:
        return False
    return admin in groups
