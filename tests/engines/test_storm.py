"""After a storm of callers, cancels, kills and unloads every slot still works and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from famulus.core.errors import Busy, FamulusError
from famulus.engines.handles import LanguageModelHandle
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.protocols import Generation
from famulus.engines.slot import Slot

MB = 1 << 20


class Storm:
    """Random users of three slots of which two fit in memory; ``seed`` makes a failure repeatable."""

    def __init__(self, seed: int, fake_process: Callable[..., ProcessHost]) -> None:
        self.random = random.Random(seed)
        self.pool = Pool(100 * MB, 0, min_residency_s=0.2)
        self.served = 0
        self.slots = [
            self._slot(f"slot{number}", keep_alive, fake_process) for number, keep_alive in enumerate((0, 0.2, -1))
        ]

    def _slot(
        self, name: str, keep_alive_s: float, fake_process: Callable[..., ProcessHost]
    ) -> Slot[LanguageModelHandle]:
        def open_host() -> ProcessHost:
            return fake_process(megabytes=20, load=self.random.choices(["ok", "missing", "exit255"], [20, 1, 1])[0])

        return Slot(
            name,
            LanguageModelHandle,
            open_host,
            pool=self.pool,
            need_bytes=35 * MB,
            keep_alive_s=keep_alive_s,
            queue=4,
            backoff_s=0.1,
        )

    async def use(self, slot: Slot[LanguageModelHandle]) -> None:
        choose = self.random.choice
        with suppress(FamulusError):
            async with slot.lease(priority=choose(["voice", "background"]), timeout_s=choose([0.1, 5])) as handle:
                match choose(["generate", "prepare", "wait", "wait", "stuck", "exit", "garbage"]):
                    case "generate":
                        request = Generation("p", choose(["slow", "fast"]), max_tokens=choose([3, 50]))
                        async for _ in handle.generate(request, timeout_s=choose([0.1, 3])):
                            if self.random.random() < 0.05:
                                break
                    case "prepare":
                        await handle.prepare("prefix", timeout_s=3)
                    case "wait":
                        await handle._call("transcribe", b"wait 0.05", timeout_s=choose([0.02, 3]))
                    case "stuck":
                        await handle._call("transcribe", b"stuck 0.3", timeout_s=choose([0.05, 3]))
                    case command:
                        await handle._call("transcribe", f"{command} 7".encode(), timeout_s=3)
            self.served += 1

    async def unload(self, slot: Slot[LanguageModelHandle]) -> None:
        with suppress(Busy):
            await slot.unload()

    async def blow(self, gusts: int) -> None:
        tasks: set[asyncio.Task[Any]] = set()
        for _ in range(gusts):
            slot = self.random.choice(self.slots)
            match self.random.choices(["use", "cancel", "prefetch", "unload", "kill", "stop"], [80, 5, 4, 3, 1, 1])[0]:
                case "use":
                    tasks.add(asyncio.create_task(self.use(slot)))
                case "cancel" if tasks:
                    self.random.choice(sorted(tasks, key=lambda task: task.get_name())).cancel()
                case "prefetch":
                    slot.prefetch()
                case "unload":
                    tasks.add(asyncio.create_task(self.unload(slot)))
                case "kill" | "stop" as word:
                    with suppress(ProcessLookupError):
                        if pid := slot.snapshot().pid:
                            os.kill(pid, signal.SIGKILL if word == "kill" else signal.SIGSTOP)
            await asyncio.sleep(self.random.random() * 0.02)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        assert not [result for result in results if isinstance(result, Exception)]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def still_works(slot: Slot[LanguageModelHandle]) -> bool:
    for _ in range(30):
        with suppress(FamulusError):
            async with slot.lease(priority="voice", timeout_s=10) as handle:
                return await handle.prepare("prefix", timeout_s=2) == "decoded"
        await asyncio.sleep(0.1)  # a load of this rig fails now and then
    return False


async def test_a_storm_leaves_every_slot_usable_and_nothing_behind(fake_process: Callable[..., ProcessHost]) -> None:
    storm = Storm(7, fake_process)
    files, tasks = open_files(), len(asyncio.all_tasks())
    try:
        await storm.blow(300)
        assert storm.served > 10
        for slot in storm.slots:
            assert await still_works(slot), slot.snapshot()
    finally:
        await storm.pool.close()
    assert all(status.pid is None for status in storm.pool.snapshot())
    await asyncio.sleep(0.1)
    assert len(asyncio.all_tasks()) == tasks
    assert open_files() == files
