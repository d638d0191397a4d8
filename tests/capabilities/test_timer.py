"""Timers: set, list, cancel, the end of one, and their life over a restart."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from famulus.capabilities.builtin.timer import MAX_TIMERS, TimerFired, TimerProvider, capability
from famulus.capabilities.command import Call, Outcome
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry


class Bench:
    """A registry with one timer provider, and what it fired."""

    def __init__(self, folder: Path) -> None:
        self.fired: list[TimerFired] = []
        self.rang = asyncio.Event()
        self.wall_shift = 0.0
        self.provider = TimerProvider(folder, self._on_fired, wall=lambda: time.time() + self.wall_shift)
        self.registry = Registry()
        self.registry.register(capability(), self.provider)

    def _on_fired(self, fired: TimerFired) -> None:
        self.fired.append(fired)
        self.rang.set()

    async def call(self, method: str, language: str = "en", **args: Any) -> Outcome:
        return await self.registry.invoke(Call(method=method, args=args), CallContext("c", "r", language=language))

    async def say(self, method: str, language: str = "en", **args: Any) -> str:
        outcome = await self.call(method, language, **args)
        return outcome.error.message if outcome.error else outcome.say


@pytest.fixture
async def make_bench(tmp_path: Path) -> AsyncIterator[Callable[[], Bench]]:
    benches: list[Bench] = []

    def make() -> Bench:
        benches.append(Bench(tmp_path / "state"))
        return benches[-1]

    yield make
    for bench in benches:
        await bench.provider.stop()


@pytest.fixture
async def bench(make_bench: Callable[[], Bench]) -> Bench:
    bench = make_bench()
    await bench.provider.start()
    return bench


def on_disk(folder: Path) -> list[dict[str, Any]]:
    timers: list[dict[str, Any]] = json.loads((folder / "state" / "timers.json").read_text())["timers"]
    return timers


def put_on_disk(folder: Path, *timers: dict[str, Any]) -> None:
    (folder / "state").mkdir(exist_ok=True)
    filled = [{"id": f"t{index}", "seconds": 60, "label": "tea", **timer} for index, timer in enumerate(timers)]
    (folder / "state" / "timers.json").write_text(json.dumps({"version": 1, "timers": filled}))


async def test_set_tells_how_long(bench: Bench) -> None:
    outcome = await bench.call("timer.set", hours=1, minutes=5)
    assert outcome.say == "Timer set for 1 hour and 5 minutes."
    assert {"label": "", "seconds": 3900, "remaining_s": 3900}.items() <= outcome.data.items()
    assert await bench.say("timer.set", minutes=3, label="tea") == "Tea timer set for 3 minutes."
    assert await bench.say("timer.set", "zh", seconds=90) == "好的，1分钟30秒的定时器开始了。"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({}, "Say how long the timer should run."),
        ({"minutes": 0}, "Say how long the timer should run."),
        ({"hours": 24, "seconds": 1}, "A timer can run for 24 hours at most."),
        ({"hours": 25}, "hours must be a whole number from 0 to 24, not 25."),
        ({"minutes": -1}, "minutes must be a whole number from 0 to 600, not -1."),
    ],
)
async def test_an_impossible_length_is_refused(bench: Bench, args: dict[str, int], told: str) -> None:
    outcome = await bench.call("timer.set", **args)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("invalid_arguments", told)


async def test_a_whole_day_is_possible(bench: Bench) -> None:
    assert (await bench.call("timer.set", hours=24)).ok


async def test_list_tells_what_is_left_soonest_first(bench: Bench) -> None:
    assert await bench.say("timer.list") == "No timer is running."
    await bench.call("timer.set", minutes=10)
    assert await bench.say("timer.list") == "10 minutes left."
    await bench.call("timer.set", minutes=3, label="tea")
    assert await bench.say("timer.list") == "Tea: 3 minutes left. The one for 10 minutes: 10 minutes left."
    assert await bench.say("timer.list", "zh") == "“tea”还剩3分钟。10分钟的还剩10分钟。"


async def test_cancel_takes_the_only_one(bench: Bench) -> None:
    assert await bench.say("timer.cancel") == "No timer is running."
    await bench.call("timer.set", minutes=10)
    assert await bench.say("timer.cancel") == "Timer cancelled."
    assert (await bench.call("timer.list")).data == []


async def test_cancel_asks_which_of_several(bench: Bench) -> None:
    await bench.call("timer.set", minutes=10)
    await bench.call("timer.set", minutes=3, label="tea")
    outcome = await bench.call("timer.cancel")
    assert outcome.say == "There are 2 timers: tea and the one for 10 minutes. Which one?"
    assert outcome.data == []
    assert len((await bench.call("timer.list")).data) == 2


@pytest.mark.parametrize("label", ["tea", "Tea", "the tea", "10-minute"])
async def test_cancel_finds_a_timer_by_label_or_length(bench: Bench, label: str) -> None:
    await bench.call("timer.set", minutes=10)
    await bench.call("timer.set", minutes=3, label="tea")
    assert await bench.say("timer.cancel", label=label) == "Timer cancelled."
    assert len((await bench.call("timer.list")).data) == 1


async def test_cancel_of_an_unknown_label_cancels_nothing(bench: Bench) -> None:
    await bench.call("timer.set", minutes=3, label="tea")
    outcome = await bench.call("timer.cancel", label="rice")
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("not_found", "There is no timer called rice.")
    assert len((await bench.call("timer.list")).data) == 1


async def test_cancel_all(bench: Bench) -> None:
    for minutes in (1, 2, 3):
        await bench.call("timer.set", minutes=minutes)
    assert await bench.say("timer.cancel", all=True) == "3 timers cancelled."
    assert await bench.say("timer.list") == "No timer is running."


async def test_too_many_are_refused(bench: Bench) -> None:
    for _ in range(MAX_TIMERS):
        assert (await bench.call("timer.set", minutes=1)).ok
    outcome = await bench.call("timer.set", minutes=1)
    assert outcome.error is not None
    assert outcome.error.code == "busy"


async def test_the_app_that_set_it_is_named_when_it_fires(bench: Bench) -> None:
    call = Call(method="timer.set", args={"seconds": 1})
    assert (await bench.registry.invoke(call, CallContext("c", "r", owner=":1.5"))).ok
    async with asyncio.timeout(10):
        await bench.rang.wait()
    assert bench.fired[0].owner == ":1.5"


async def test_each_change_is_on_disk_when_its_call_ends(bench: Bench, tmp_path: Path) -> None:
    await bench.call("timer.set", minutes=3, label="tea")
    (stored,) = await asyncio.to_thread(on_disk, tmp_path)
    assert (stored["label"], stored["seconds"]) == ("tea", 180)
    assert 170 < stored["due"] - time.time() < 190
    await bench.call("timer.cancel")
    assert await asyncio.to_thread(on_disk, tmp_path) == []


async def test_nobody_else_may_read_what_timers_are_called(bench: Bench, tmp_path: Path) -> None:
    await bench.call("timer.set", minutes=3, label="surprise party")
    assert (tmp_path / "state" / "timers.json").stat().st_mode & 0o077 == 0


async def test_a_restart_takes_up_what_runs(bench: Bench, make_bench: Callable[[], Bench]) -> None:
    await bench.call("timer.set", minutes=3, label="tea")
    await bench.provider.stop()
    later = make_bench()
    later.wall_shift = 60
    await later.provider.start()
    assert await later.say("timer.list") == "Tea: 2 minutes left."
    assert later.fired == []


async def test_a_timer_fires_once_and_is_gone(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    put_on_disk(tmp_path, {"due": time.time() + 0.1})
    bench = make_bench()
    await bench.provider.start()
    async with asyncio.timeout(5):
        await bench.rang.wait()
    assert [(fired.label, fired.late_s, fired.say) for fired in bench.fired] == [("tea", 0.0, "Time is up: tea.")]
    await bench.provider.stop()
    assert await asyncio.to_thread(on_disk, tmp_path) == []


async def test_a_timer_that_ended_while_off_is_told_late_and_once(
    make_bench: Callable[[], Bench], tmp_path: Path
) -> None:
    put_on_disk(tmp_path, {"due": time.time() - 100, "label": "", "language": "zh"}, {"due": time.time() + 60})
    first = make_bench()
    await first.provider.start()
    (fired,) = first.fired
    assert 99 < fired.late_s < 110
    assert fired.say == "我关机的时候，1分钟的定时器已经到时间了。"
    await first.provider.stop()
    second = make_bench()
    await second.provider.start()
    assert second.fired == []
    assert len((await second.call("timer.list")).data) == 1


async def test_a_clock_that_went_back_makes_no_timer_longer(make_bench: Callable[[], Bench], tmp_path: Path) -> None:
    put_on_disk(tmp_path, {"due": time.time() + 40})
    bench = make_bench()
    bench.wall_shift = -1e9  # a board without a battery-backed clock
    await bench.provider.start()
    assert (await bench.call("timer.list")).data[0]["remaining_s"] == 60


async def test_a_clock_that_was_set_meanwhile_is_followed_on_disk(bench: Bench, tmp_path: Path) -> None:
    await bench.call("timer.set", minutes=3)
    bench.wall_shift = 1e6
    await bench.provider.stop()
    (stored,) = await asyncio.to_thread(on_disk, tmp_path)
    assert 170 < stored["due"] - 1e6 - time.time() < 190


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}', '{"timers": [{"id": "x"}]}', "\ufffd" * 300_000])
async def test_a_damaged_file_is_survived(
    make_bench: Callable[[], Bench], tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "timers.json").write_text(content)
    bench = make_bench()
    await bench.provider.start()
    assert "damaged" in caplog.text
    assert (await bench.call("timer.set", minutes=1)).ok
    assert len(await asyncio.to_thread(on_disk, tmp_path)) == 1


async def test_without_a_writable_disk_it_runs_in_memory_and_says_so_once(
    make_bench: Callable[[], Bench], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    bench = make_bench()
    await bench.provider.start()
    caplog.clear()
    await bench.call("timer.set", minutes=1)
    await bench.call("timer.set", minutes=2)
    assert len((await bench.call("timer.list")).data) == 2
    assert caplog.text.count("a restart will lose them") == 1


async def test_a_cancelled_call_leaves_a_whole_file(bench: Bench, tmp_path: Path) -> None:
    task = asyncio.create_task(bench.call("timer.set", minutes=1))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    await asyncio.gather(*(bench.call("timer.set", minutes=minutes) for minutes in (2, 3, 4)))
    await bench.provider.stop()
    running = (await bench.call("timer.list")).data
    assert sorted(timer["seconds"] for timer in await asyncio.to_thread(on_disk, tmp_path)) == sorted(
        timer["seconds"] for timer in running
    )


async def test_one_that_cannot_tell_does_not_keep_the_next_from_ending(tmp_path: Path) -> None:
    put_on_disk(tmp_path, {"due": time.time() - 5}, {"due": time.time() - 5})
    heard: list[str] = []

    def tell(fired: TimerFired) -> None:
        heard.append(fired.id)
        raise RuntimeError

    provider = TimerProvider(tmp_path / "state", tell)
    await provider.start()
    await provider.stop()
    assert heard == ["t0", "t1"]
