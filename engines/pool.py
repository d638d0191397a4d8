"""All slots together: one load at a time, one memory budget, and who has to make room for whom."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..core.errors import ModelUnavailable
from .memory import Room, mem_available, refusal

_LOG = logging.getLogger(__name__)

MIN_RESIDENCY_S = 10.0
CLOSE_S = 2.0


@dataclass(frozen=True)
class SlotStatus:
    """What can be seen of a slot. ``state`` is unloaded, loading, ready, busy, unloading or failed.

    ``reason`` tells why it failed or was last ended. ``expires_in_s`` is None when no timer runs,
    ``queue`` counts the leases that wait.
    """

    name: str
    state: str
    reason: str
    rss_bytes: int
    expires_in_s: float | None
    loads: int
    last_load_s: float
    pid: int | None
    queue: int


class Member(Protocol):
    """What the pool needs to know of a slot."""

    name: str

    @property
    def need_bytes(self) -> int: ...

    @property
    def rss_bytes(self) -> int: ...

    @property
    def urgent(self) -> bool:
        """Whether voice waits for it."""

    @property
    def state(self) -> str: ...

    @property
    def idle_since(self) -> float | None:
        """Monotonic time of its last use while it is loaded and nobody uses it, else None."""

    async def evict(self) -> None:
        """Unload if idle; returns when an unload that was begun is over."""

    async def close(self) -> None: ...

    def snapshot(self) -> SlotStatus: ...


class Pool:
    """Holds every slot to one memory budget.

    ``budget_bytes`` bounds what all models take together; a load must also leave ``reserve_bytes`` of the
    system's MemAvailable. A slot that was used within ``min_residency_s`` is evicted only for voice, so that two
    models in the background do not evict each other for ever.
    """

    def __init__(
        self,
        budget_bytes: int,
        reserve_bytes: int,
        *,
        meminfo_path: Path = Path("/proc/meminfo"),
        min_residency_s: float = MIN_RESIDENCY_S,
    ) -> None:
        self._budget = budget_bytes
        self._reserve = reserve_bytes
        self._meminfo = meminfo_path
        self._min_residency_s = min_residency_s
        self._members: list[Member] = []
        self._loading: Member | None = None
        self._waiting: list[tuple[Member, asyncio.Future[None]]] = []

    def join(self, member: Member) -> None:
        """Called by a slot as it is made."""
        self._members.append(member)

    def snapshot(self) -> list[SlotStatus]:
        """The status of each slot, in the order in which they joined."""
        return [member.snapshot() for member in self._members]

    @asynccontextmanager
    async def load_turn(self, member: Member) -> AsyncIterator[None]:
        """Wait until no other slot loads (those that voice waits for go first), then make room for ``member``."""
        await self._take_turn(member)
        try:
            await self._make_room(member)
            yield
        finally:
            self._loading = None
            self._pass_turn()

    async def close(self) -> None:
        """End every engine; returns within two seconds."""
        tasks = [asyncio.create_task(member.close()) for member in self._members]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_S)
            for task in late:
                task.cancel()

    async def _take_turn(self, member: Member) -> None:
        if self._loading is None:
            self._loading = member
            return
        entry = (member, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await entry[1]
        except asyncio.CancelledError:
            if self._loading is member:  # the turn came at the same moment
                self._loading = None
                self._pass_turn()
            raise
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def _pass_turn(self) -> None:
        ready = [entry for entry in self._waiting if not entry[1].done()]
        if self._loading is None and ready:
            entry = next((entry for entry in ready if entry[0].urgent), ready[0])
            self._loading = entry[0]
            entry[1].set_result(None)

    async def _make_room(self, wanted: Member) -> None:
        """Evict idle slots, least recently used first, until ``wanted`` fits; refuse when they are not enough."""
        for _ in range(2 * len(self._members) + 1):
            need, room = wanted.need_bytes, self._room()
            if room.fits(need):
                return
            if leaving := [member for member in self._members if member.state == "unloading"]:
                await leaving[0].evict()  # its memory is about to come back
                continue
            victims = self._victims(wanted)
            # A model that could not fit anyway must not cost the others their place.
            if not victims or not room.fits(need, freed=sum(victim.rss_bytes for victim in victims)):
                raise ModelUnavailable(refusal(wanted.name, need, room, self._hint(wanted, victims)))
            _LOG.info("%s is unloaded to make room for %s", victims[0].name, wanted.name)
            await victims[0].evict()
        raise ModelUnavailable(refusal(wanted.name, wanted.need_bytes, self._room(), "try again"))

    def _room(self) -> Room:
        used = sum(member.rss_bytes for member in self._members)
        return Room(self._budget, used, mem_available(self._meminfo), self._reserve)

    def _victims(self, wanted: Member) -> list[Member]:
        newest = time.monotonic() - (0 if wanted.urgent else self._min_residency_s)
        idle = [(since, member) for member in self._members if (since := member.idle_since) is not None]
        return [member for since, member in sorted(idle, key=lambda item: item[0]) if since <= newest]

    def _hint(self, wanted: Member, victims: list[Member]) -> str:
        kept = [
            member.name
            for member in self._members
            if member.rss_bytes and member is not wanted and member not in victims
        ]
        if kept:
            return f"wait until {' and '.join(kept)} can be unloaded, or choose a smaller model"
        return "choose a smaller model, or give models more memory"
