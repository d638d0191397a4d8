"""Slots share one memory budget and load one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import ModelUnavailable
from famulus.engines.handles import RecognizerHandle
from famulus.engines.memory import mem_available, rss_of
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.slot import Slot

Eventually = Callable[..., Awaitable[None]]
MB = 1 << 20


class Rig:
    """A pool on a meminfo file of its own, and slots whose engines hold 40 MB each (about 55 MB in all)."""

    def __init__(self, path: Path, fake_process: Callable[..., ProcessHost]) -> None:
        self.path = path
        self.journal = path.with_name("journal")
        self.pools: list[Pool] = []
        self._fake_process = fake_process

    def memory(self, megabytes: int) -> None:
        self.path.write_text(f"MemTotal: 4000000 kB\nMemAvailable:   {megabytes * 1024} kB\n")

    def pool(self, budget: int = 8000, reserve: int = 0, **keywords: Any) -> Pool:
        pool = Pool(budget * MB, reserve * MB, meminfo_path=self.path, **keywords)
        self.pools.append(pool)
        return pool

    def slot(
        self, name: str, pool: Pool, *, need: int = 60, keep_alive_s: float = 300, **engine: Any
    ) -> Slot[RecognizerHandle]:
        options = {"megabytes": 40, "journal": str(self.journal), **engine}
        return Slot(
            name,
            RecognizerHandle,
            lambda: self._fake_process(**options),
            pool=pool,
            need_bytes=need * MB,
            keep_alive_s=keep_alive_s,
        )


@pytest.fixture
async def rig(tmp_path: Path, fake_process: Callable[..., ProcessHost]) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path / "meminfo", fake_process)
    rig.memory(8000)
    yield rig
    for pool in rig.pools:
        await pool.close()


async def ask(slot: Slot[RecognizerHandle], priority: Any = "background") -> str:
    async with slot.lease(priority=priority) as handle:
        return (await handle.transcribe(b"hello", timeout_s=10)).text


async def test_two_loads_never_overlap(rig: Rig) -> None:
    pool = rig.pool()
    slots = [rig.slot(f"slot{number}", pool, load_s=0.15) for number in range(3)]
    await asyncio.gather(*(ask(slot) for slot in slots))
    words = [line.split()[0] for line in rig.journal.read_text().splitlines()]
    assert words == ["begin", "end"] * 3


async def test_a_load_that_voice_waits_for_goes_first(rig: Rig) -> None:
    pool = rig.pool()
    first, background, voice = (rig.slot(name, pool, load_s=0.2) for name in ("first", "background", "voice"))
    order: list[str] = []

    async def note(slot: Slot[RecognizerHandle], priority: Any) -> None:
        await ask(slot, priority)
        order.append(slot.name)

    await asyncio.gather(note(first, "background"), note(background, "background"), note(voice, "voice"))
    assert order == ["first", "voice", "background"]


async def test_a_voice_caller_lifts_a_load_that_waits(rig: Rig) -> None:
    pool = rig.pool()
    first, second, third = (rig.slot(name, pool, load_s=0.2) for name in ("first", "second", "third"))
    for slot in (first, second, third):
        slot.prefetch()
    await ask(third, "voice")
    assert (first.state, second.state) == ("ready", "loading")


async def test_a_load_given_up_in_the_line_lets_the_next_pass(rig: Rig, eventually: Eventually) -> None:
    pool = rig.pool()
    first, second, third = (rig.slot(name, pool, load_s=0.2) for name in ("first", "second", "third"))
    for slot in (first, second, third):
        slot.prefetch()
    await asyncio.sleep(0)
    await second.unload()
    await first.unload()
    await eventually(lambda: third.state == "ready")
    assert (first.state, second.state) == ("unloaded", "unloaded")


async def test_refuses_with_the_numbers_when_memory_is_short(rig: Rig) -> None:
    rig.memory(700)
    slot = rig.slot("llm", rig.pool(budget=2000, reserve=150), need=600)
    with pytest.raises(ModelUnavailable) as caught:
        await ask(slot)
    message = str(caught.value)
    for number in ("629 MB", "734 MB", "157 MB", "2097 MB"):
        assert number in message
    assert "smaller model" in message
    assert slot.state == "failed"
    assert not rig.journal.exists()
    rig.memory(800)
    assert await ask(slot)


async def test_refuses_with_the_numbers_when_the_budget_is_short(rig: Rig) -> None:
    slot = rig.slot("llm", rig.pool(budget=500), need=600)
    with pytest.raises(ModelUnavailable, match=r"llm needs 629 MB.*budget of 524 MB"):
        await ask(slot, "voice")


async def test_refusals_for_want_of_memory_need_no_back_off(rig: Rig) -> None:
    rig.memory(10)
    slot = rig.slot("llm", rig.pool())
    for _ in range(5):
        with pytest.raises(ModelUnavailable, match="does not fit"):
            await ask(slot)
    rig.memory(800)
    assert await ask(slot)


async def test_only_the_budget_counts_where_the_kernel_does_not_tell(rig: Rig) -> None:
    rig.path.write_text("MemTotal: 4000000 kB\n")
    pool = rig.pool(budget=100, reserve=150)
    assert await ask(rig.slot("asr", pool))
    with pytest.raises(ModelUnavailable, match="unknown of memory"):
        await ask(rig.slot("llm", pool, need=600))


async def test_the_least_recently_used_idle_slot_makes_room(rig: Rig) -> None:
    pool = rig.pool(budget=150, min_residency_s=0)
    first, second, third = (rig.slot(name, pool) for name in ("first", "second", "third"))
    await ask(first)
    await ask(second)
    await ask(first)
    await ask(third)
    assert [slot.state for slot in (first, second, third)] == ["ready", "unloaded", "ready"]
    assert second.snapshot().reason == "it made room for another model"
    assert rig.journal.read_text().count("close") == 1


async def test_a_slot_in_use_is_never_evicted(rig: Rig) -> None:
    pool = rig.pool(budget=80, min_residency_s=0)
    first, second = rig.slot("first", pool), rig.slot("second", pool)
    async with first.lease() as handle:
        with pytest.raises(ModelUnavailable, match="wait until first can be unloaded"):
            await ask(second, "voice")
        assert await handle.transcribe(b"hello", timeout_s=5)
    assert await ask(second, "voice")
    assert first.state == "unloaded"


async def test_two_models_in_the_background_do_not_evict_each_other_for_ever(rig: Rig) -> None:
    pool = rig.pool(budget=80)
    first, second = rig.slot("first", pool), rig.slot("second", pool)
    await ask(first)
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match="wait until first can be unloaded"):
            await ask(second)
    second.prefetch()  # a guess about the future is no reason either
    await asyncio.sleep(0.1)
    assert (first.state, second.state) == ("ready", "failed")
    assert await ask(second, "voice")
    assert first.state == "unloaded"


async def test_a_slot_makes_room_once_its_minimum_residency_is_over(rig: Rig) -> None:
    pool = rig.pool(budget=80, min_residency_s=0.2)
    first, second = rig.slot("first", pool), rig.slot("second", pool)
    await ask(first)
    await asyncio.sleep(0.25)
    assert await ask(second)
    assert first.state == "unloaded"


async def test_an_engine_that_is_just_being_unloaded_is_waited_for(rig: Rig) -> None:
    pool = rig.pool(budget=80)
    first, second = rig.slot("first", pool, keep_alive_s=0), rig.slot("second", pool)
    await ask(first)
    assert first.state == "unloading"
    assert await ask(second)


async def test_a_cancelled_decode_does_not_hold_its_room(rig: Rig) -> None:
    pool = rig.pool(budget=80, min_residency_s=0)
    first, second = rig.slot("first", pool), rig.slot("second", pool)
    async with first.lease() as handle:
        task = asyncio.create_task(handle.transcribe(b"stuck 30", timeout_s=40))
        await asyncio.sleep(0.1)
        task.cancel()
    assert first.state == "busy"
    assert await asyncio.wait_for(ask(second), 5)


async def test_a_model_that_cannot_fit_anyway_costs_nobody_their_place(rig: Rig) -> None:
    pool = rig.pool(budget=200, min_residency_s=0)
    small = rig.slot("small", pool)
    await ask(small)
    with pytest.raises(ModelUnavailable):
        await ask(rig.slot("large", pool, need=600), "voice")
    assert small.state == "ready"


async def test_the_snapshot_lists_the_slots_in_order(rig: Rig) -> None:
    pool = rig.pool()
    await ask(rig.slot("asr", pool))
    rig.slot("llm", pool)
    assert [(status.name, status.state) for status in pool.snapshot()] == [("asr", "ready"), ("llm", "unloaded")]


async def test_an_empty_pool_closes(rig: Rig) -> None:
    await rig.pool().close()


def test_reads_what_this_machine_has() -> None:
    available = mem_available()
    assert available
    assert available > 50 * MB
    assert 1 * MB < rss_of("self") < available * 10


@pytest.mark.parametrize("text", ["", "MemAvailable: many kB\n", "MemAvailable: 12\n", "\x00\xff" * 99])
def test_an_odd_meminfo_tells_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "meminfo"
    assert mem_available(path) is None
    path.write_text(text)
    assert mem_available(path) is None
    assert rss_of(1, tmp_path) == 0
