"""The clock: what it says in both languages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from famulus.capabilities.builtin.clock import ClockProvider, capability
from famulus.capabilities.command import Call
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry

NOW = datetime(2026, 11, 30, 14, 5, tzinfo=timezone(timedelta(hours=8)))


@pytest.mark.parametrize(
    ("method", "language", "say"),
    [
        ("clock.time", "en", "It is 2:05 PM."),
        ("clock.time", "zh", "现在是下午两点零五分。"),
        ("clock.date", "en", "Today is Monday, 30 November 2026."),
        ("clock.date", "zh", "今天是2026年11月30日，星期一。"),
    ],
)
async def test_it_says_time_and_date(method: str, language: str, say: str) -> None:
    registry = Registry()
    registry.register(capability(), ClockProvider(now=lambda: NOW))
    outcome = await registry.invoke(Call(method=method), CallContext("c", "r", language=language))
    assert outcome.error is None
    assert (outcome.say, outcome.data) == (say, {"iso": "2026-11-30T14:05:00+08:00"})


async def test_without_a_clock_of_ones_own_it_is_this_machines() -> None:
    outcome = await ClockProvider().invoke("clock.time", {}, CallContext("c", "r"))
    assert abs(datetime.fromisoformat(outcome.data["iso"]) - datetime.now(UTC)) < timedelta(minutes=1)
