"""A slot loads once for all who ask, lends to one at a time and gives the memory back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Busy, Failed, ModelUnavailable, TimedOut
from famulus.engines.handles import EmbedderHandle, LanguageModelHandle, RecognizerHandle, SynthesizerHandle
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.protocols import Completion, Generation
from famulus.engines.slot import Slot

Eventually = Callable[..., Awaitable[None]]
MakeSlot = Callable[..., Slot[RecognizerHandle]]


@pytest.fixture
def make_slot(pool: Pool, fake_process: Callable[..., ProcessHost]) -> MakeSlot:
    """A slot named asr; ``engine`` holds the fake engine's options."""

    def make(engine: dict[str, Any] | None = None, **keywords: Any) -> Slot[RecognizerHandle]:
        keywords.setdefault("need_bytes", 1 << 20)
        return Slot("asr", RecognizerHandle, lambda: fake_process(**(engine or {})), pool=pool, **keywords)

    return make


async def ask(slot: Slot[RecognizerHandle], command: str = "hello", **keywords: Any) -> str:
    async with slot.lease(**keywords) as handle:
        return (await handle.transcribe(command.encode(), timeout_s=10)).text


async def test_goes_from_unloaded_through_busy_back_to_unloaded(make_slot: MakeSlot) -> None:
    slot = make_slot()
    assert slot.state == "unloaded"
    slot.prefetch()
    assert slot.state == "loading"
    async with slot.lease() as handle:
        assert slot.state == "busy"
        await handle.transcribe(b"hello", timeout_s=5)
        status = slot.snapshot()
        assert status.pid
        assert status.rss_bytes > 5 << 20
        assert status.loads == 1
        assert status.last_load_s > 0
        assert status.expires_in_s is None
    assert slot.state == "ready"
    assert 299 < (slot.snapshot().expires_in_s or 0) <= 300
    await slot.unload()
    status = slot.snapshot()
    assert (status.state, status.pid, status.rss_bytes, status.expires_in_s) == ("unloaded", None, 0, None)
    assert status.reason == "it was unloaded on request"


async def test_the_measured_memory_replaces_the_estimate(make_slot: MakeSlot) -> None:
    slot = make_slot({"megabytes": 30}, need_bytes=1 << 30)
    assert slot.need_bytes == 1 << 30
    await ask(slot)
    assert 30 << 20 < slot.need_bytes < 200 << 20


async def test_every_handle_speaks_its_protocol(pool: Pool, fake_process: Callable[..., ProcessHost]) -> None:
    def slot(handle: Any) -> Slot[Any]:
        return Slot("any", handle, fake_process, pool=pool, need_bytes=0)

    async with slot(EmbedderHandle).lease() as embedder:
        assert await embedder.embed(["abc"], timeout_s=5) == [[1.0, 1e-17, -1.0]]
    async with slot(SynthesizerHandle).lease() as synthesizer:
        assert await synthesizer.synthesize("hi", "en", timeout_s=5) == b"en:hi"
    async with slot(LanguageModelHandle).lease() as model:
        assert await model.prepare("prefix", timeout_s=5) == "decoded"
        pieces = [piece async for piece in model.generate(Generation("p", "s", max_tokens=2), timeout_s=5)]
        assert isinstance(pieces[-1], Completion)


async def test_twenty_callers_on_a_cold_slot_share_one_load(make_slot: MakeSlot) -> None:
    slot = make_slot({"load_s": 0.2}, queue=20)
    texts = await asyncio.gather(*(ask(slot) for _ in range(20)))
    assert len(set(texts)) == 1  # one process answered them all
    assert slot.snapshot().loads == 1


async def test_a_load_that_fails_fails_for_all_who_wait_and_is_tried_once(make_slot: MakeSlot, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    slot = make_slot({"load": "missing", "journal": str(journal)})
    results = await asyncio.gather(*(ask(slot) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, ModelUnavailable) and "missing" in str(result) for result in results)
    assert len(journal.read_text().splitlines()) == 1
    assert slot.state == "failed"
    assert "missing" in slot.snapshot().reason


async def test_a_cancelled_caller_does_not_cancel_the_load_of_the_others(make_slot: MakeSlot) -> None:
    slot = make_slot({"load_s": 0.3})
    tasks = [asyncio.create_task(ask(slot)) for _ in range(3)]
    await asyncio.sleep(0.05)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] == results[2]
    assert slot.snapshot().loads == 1


async def test_a_load_outlives_all_its_callers_and_waits_for_the_next(
    make_slot: MakeSlot, eventually: Eventually
) -> None:
    slot = make_slot({"load_s": 0.2}, keep_alive_s=0)
    task = asyncio.create_task(ask(slot))
    await asyncio.sleep(0.05)
    task.cancel()
    await eventually(lambda: slot.state == "ready")
    assert 0 < (slot.snapshot().expires_in_s or 0) <= 15


async def test_a_caller_cancelled_in_the_queue_leaves_its_place(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease():
        tasks = [asyncio.create_task(ask(slot)) for _ in range(2)]
        await asyncio.sleep(0)
        assert slot.snapshot().queue == 2
        tasks[0].cancel()
        await asyncio.sleep(0)
        assert slot.snapshot().queue == 1
    assert await tasks[1]


async def test_a_caller_cancelled_as_its_turn_comes_passes_it_on(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease():
        tasks = [asyncio.create_task(ask(slot)) for _ in range(2)]
        await asyncio.sleep(0)
    tasks[0].cancel()  # the lease above has just been granted to it
    assert await asyncio.wait_for(tasks[1], 5)
    assert slot.state == "ready"


async def test_a_caller_cancelled_as_the_engine_comes_free_is_passed_over(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease():
        tasks = [asyncio.create_task(ask(slot)) for _ in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
    assert await asyncio.wait_for(tasks[1], 5)
    assert slot.state == "ready"


async def test_a_caller_cancelled_in_a_decode_frees_the_engine_for_the_next(
    make_slot: MakeSlot, eventually: Eventually
) -> None:
    slot = make_slot()
    first = asyncio.create_task(ask(slot, "wait 30"))
    second = asyncio.create_task(ask(slot))
    await eventually(lambda: slot.state == "busy")
    await asyncio.sleep(0.05)
    first.cancel()
    assert await asyncio.wait_for(second, 5)
    assert slot.snapshot().loads == 1


async def test_a_decode_that_ignores_a_cancel_is_killed_and_the_next_loads_afresh(make_slot: MakeSlot) -> None:
    slot = make_slot()
    await ask(slot)
    first = asyncio.create_task(ask(slot, "stuck 30"))
    await asyncio.sleep(0.1)
    second = asyncio.create_task(ask(slot))
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(second, 10)
    assert slot.snapshot().loads == 2


async def test_breaking_out_of_a_stream_frees_the_engine(pool: Pool, fake_process: Callable[..., ProcessHost]) -> None:
    slot = Slot("llm", LanguageModelHandle, fake_process, pool=pool, need_bytes=0)
    request = Generation("p", "slow", max_tokens=100_000)
    async with slot.lease() as handle:
        async for _ in handle.generate(request, timeout_s=60):
            break
    async with slot.lease() as handle, aclosing(handle.generate(request, timeout_s=60)) as pieces:
        assert await anext(pieces) == "0 é漢 "
    assert slot.snapshot().loads == 1


async def test_a_handle_is_of_no_use_after_its_lease(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease() as handle:
        pass
    with pytest.raises(Failed, match="lease it again"):
        await handle.transcribe(b"hello", timeout_s=5)


async def test_a_dead_worker_fails_its_request_and_the_next_lease_loads_afresh(make_slot: MakeSlot) -> None:
    slot = make_slot()
    with pytest.raises(ModelUnavailable, match="exit code 255"):
        await ask(slot, "exit 255")
    assert slot.state == "failed"
    assert "255" in slot.snapshot().reason
    assert await ask(slot)
    assert slot.snapshot().loads == 2
    assert slot.snapshot().reason == ""


async def test_a_worker_that_dies_idle_is_noticed(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot()
    await ask(slot)
    os.kill(slot.snapshot().pid or 0, signal.SIGKILL)
    await eventually(lambda: slot.state == "failed")
    assert "SIGKILL" in slot.snapshot().reason
    assert slot.snapshot().expires_in_s is None
    assert await ask(slot)


async def test_a_worker_that_dies_while_others_wait_is_replaced_for_them(make_slot: MakeSlot) -> None:
    slot = make_slot()
    first = asyncio.create_task(ask(slot, "exit 1"))
    second = asyncio.create_task(ask(slot))
    with pytest.raises(ModelUnavailable):
        await first
    assert await second
    assert slot.snapshot().loads == 2


async def test_a_full_queue_refuses_and_says_so(make_slot: MakeSlot) -> None:
    slot = make_slot(queue=2)
    async with slot.lease():
        tasks = [asyncio.create_task(ask(slot)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="2 requests already wait for asr"):
            await ask(slot)
    await asyncio.gather(*tasks)


async def test_voice_takes_the_place_of_the_last_in_a_full_background_queue(make_slot: MakeSlot) -> None:
    slot = make_slot(queue=2)
    async with slot.lease():
        tasks = [asyncio.create_task(ask(slot)) for _ in range(2)]
        await asyncio.sleep(0)
        voice = [asyncio.create_task(ask(slot, priority="voice")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await ask(slot, priority="voice")
    results = await asyncio.gather(*tasks, *voice, return_exceptions=True)
    assert [isinstance(result, Busy) for result in results] == [True, True, False, False]


@pytest.mark.parametrize("cold", [True, False])
async def test_voice_goes_before_background_and_each_in_turn(make_slot: MakeSlot, cold: bool) -> None:
    slot = make_slot({"load_s": 0.1})
    order: list[str] = []

    async def note(name: str, priority: Any) -> None:
        async with slot.lease(priority=priority):
            order.append(name)

    async with asyncio.TaskGroup() as group, nullcontext() if cold else slot.lease():
        for name, priority in [("b1", "background"), ("b2", "background"), ("v1", "voice"), ("v2", "voice")]:
            group.create_task(note(name, priority))
        await asyncio.sleep(0)
    assert order == ["v1", "v2", "b1", "b2"]


async def test_waiting_has_a_deadline(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease():
        with pytest.raises(TimedOut, match=r"not free within 0\.1 s \(busy\)"):
            await ask(slot, timeout_s=0.1)
    assert slot.snapshot().queue == 0


async def test_keep_alive_0_unloads_when_the_lease_ends(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot(keep_alive_s=0)
    await ask(slot)
    assert slot.state == "unloading"
    await eventually(lambda: slot.state == "unloaded")
    assert slot.rss_bytes == 0


async def test_keep_alive_0_stays_loaded_for_those_who_wait(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot(keep_alive_s=0)
    await asyncio.gather(*(ask(slot) for _ in range(3)))
    assert slot.snapshot().loads == 1
    await eventually(lambda: slot.state == "unloaded")


async def test_an_idle_engine_expires(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot(keep_alive_s=0.2)
    await ask(slot)
    assert 0 < (slot.snapshot().expires_in_s or 0) <= 0.2
    await eventually(lambda: slot.state == "unloaded")
    assert slot.snapshot().reason == "it was idle"


async def test_an_engine_in_use_never_expires(make_slot: MakeSlot) -> None:
    slot = make_slot(keep_alive_s=0.05)
    await ask(slot)
    assert await ask(slot, "wait 0.4")
    async with slot.lease() as handle:
        await asyncio.sleep(0.2)
        await handle.transcribe(b"hello", timeout_s=5)
    assert slot.snapshot().loads == 1


async def test_keep_alive_minus_1_never_expires(make_slot: MakeSlot) -> None:
    slot = make_slot(keep_alive_s=-1)
    await ask(slot)
    assert slot.snapshot().expires_in_s is None
    assert slot.state == "ready"


async def test_prefetch_loads_ahead_and_holds_the_engine_for_its_first_lease(
    make_slot: MakeSlot, eventually: Eventually
) -> None:
    slot = make_slot(keep_alive_s=0, hold_s=0.3)
    slot.prefetch()
    slot.prefetch()
    await eventually(lambda: slot.state == "ready")
    await ask(slot)
    assert slot.snapshot().loads == 1
    await eventually(lambda: slot.state == "unloaded")
    slot.prefetch()
    await eventually(lambda: slot.state == "ready")
    await eventually(lambda: slot.state == "unloaded")


async def test_prefetch_never_raises_and_leaves_the_reason(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot({"load": "exit255"})
    slot.prefetch()
    await eventually(lambda: slot.state == "failed")
    assert "exit code 255" in slot.snapshot().reason


async def test_prefetch_during_an_unload_loads_again(make_slot: MakeSlot, eventually: Eventually) -> None:
    slot = make_slot(keep_alive_s=0)
    await ask(slot)
    assert slot.state == "unloading"
    slot.prefetch()
    await eventually(lambda: slot.state == "ready")


async def test_a_lease_during_an_unload_loads_again(make_slot: MakeSlot) -> None:
    slot = make_slot(keep_alive_s=0)
    await ask(slot)
    assert slot.state == "unloading"
    assert await ask(slot)
    assert slot.snapshot().loads == 2


async def test_unload_refuses_while_the_engine_is_in_use(make_slot: MakeSlot) -> None:
    slot = make_slot()
    async with slot.lease() as handle:
        with pytest.raises(Busy, match="in use"):
            await slot.unload()
        assert await handle.transcribe(b"hello", timeout_s=5)
    await slot.unload()
    await slot.unload()
    assert slot.state == "unloaded"


async def test_unload_ends_a_prefetch(make_slot: MakeSlot) -> None:
    slot = make_slot({"load_s": 20})
    slot.prefetch()
    await asyncio.sleep(0.1)
    await asyncio.wait_for(slot.unload(), 2)
    assert slot.state == "unloaded"


async def test_a_caller_that_comes_as_a_prefetch_is_ended_gets_its_engine(make_slot: MakeSlot) -> None:
    slot = make_slot({"load_s": 0.2})
    slot.prefetch()
    await asyncio.sleep(0.1)
    unload = asyncio.create_task(slot.unload())
    await asyncio.sleep(0)
    caller = asyncio.create_task(ask(slot))
    await asyncio.sleep(0)
    unload.cancel()  # nor does it matter that the one who unloads gives up
    assert await asyncio.wait_for(caller, 5)


async def test_three_failed_loads_make_it_wait_before_it_tries_again(make_slot: MakeSlot, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    slot = make_slot({"fail_first": 3, "journal": str(journal)}, backoff_s=0.5)
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match=r"file is missing"):
            await ask(slot)
    with pytest.raises(ModelUnavailable, match="it is tried again in"):
        await ask(slot)
    slot.prefetch()
    assert slot.state == "failed"
    assert len(journal.read_text().splitlines()) == 3
    await asyncio.sleep(0.5)
    assert await ask(slot)
    assert slot.state == "ready"


async def test_a_load_past_its_deadline_is_ended(make_slot: MakeSlot) -> None:
    slot = make_slot({"load_s": 20}, load_timeout_s=0.3)
    with pytest.raises(ModelUnavailable, match=r"had not loaded after 0\.3 s"):
        await ask(slot)
    assert slot.snapshot().pid is None


@pytest.mark.parametrize("moment", ["loading", "running", "stopped", "idle", "queued", "unloading"])
async def test_closing_the_pool_ends_everything_within_two_seconds(
    pool: Pool, make_slot: MakeSlot, moment: str
) -> None:
    slot = make_slot({"load_s": 20} if moment == "loading" else {})
    tasks: list[asyncio.Task[str]] = []
    if moment != "loading":
        await ask(slot)
    if moment == "stopped":
        os.kill(slot.snapshot().pid or 0, signal.SIGSTOP)
    if moment in ("loading", "running", "stopped"):
        tasks = [asyncio.create_task(ask(slot, "stuck 30"))]
    if moment == "queued":
        tasks = [asyncio.create_task(ask(slot, "wait 30")) for _ in range(3)]
    if moment == "unloading":
        os.kill(slot.snapshot().pid or 0, signal.SIGSTOP)
        unload = asyncio.create_task(slot.unload())
    await asyncio.sleep(0.2)
    pid = slot.snapshot().pid
    started = time.monotonic()
    await pool.close()
    assert time.monotonic() - started < 2
    assert slot.state == "unloaded"
    if moment == "unloading":
        await unload
    if pid:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, ModelUnavailable) for result in results)
    with pytest.raises(ModelUnavailable, match="shut down"):
        await ask(slot)
    slot.prefetch()
    assert slot.state == "unloaded"
