"""The registry: who owns a name, what a change tells, and that a call always ends in an outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from famulus.capabilities.command import Call, Capability, Command, Outcome, Risk
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry
from famulus.core.errors import Busy, InvalidArguments, NotFound

CONTEXT = CallContext(call_id="r1.1", run_id="r1")
PERCENT = {
    "type": "object",
    "properties": {"percent": {"type": "integer", "minimum": 0, "maximum": 100, "default": 50}},
}


class FakeProvider:
    """Answers with ``act``, and keeps what it was asked and told to cancel."""

    def __init__(self, act: Callable[[], Awaitable[Any]] | None = None) -> None:
        self._act = act
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.ended = 0

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        self.asked.append((command, args))
        try:
            return await self._act() if self._act else Outcome(say=f"{command} done")
        finally:
            self.ended += 1

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)


def capability(name: str, *commands: str, priority: int = 0, **changes: Any) -> Capability:
    made = [Command(name=c, description=c, parameters=PERCENT, **changes) for c in commands]
    return Capability(name=name, priority=priority, commands=tuple(made))


def one(act: Callable[[], Awaitable[Any]] | None = None, **changes: Any) -> tuple[Registry, FakeProvider]:
    registry, provider = Registry(), FakeProvider(act)
    registry.register(capability("light", "light.dim", **changes), provider)
    return registry, provider


def names(registry: Registry) -> list[str]:
    return [command.name for command in registry.commands()]


async def hang() -> Outcome:
    await asyncio.sleep(30)
    return Outcome()


def test_commands_stand_in_the_order_of_registration() -> None:
    registry = Registry()
    registry.register(capability("b", "b.two", "b.one"), FakeProvider())
    registry.register(capability("a", "a.one"), FakeProvider())
    assert names(registry) == ["b.two", "b.one", "a.one"]
    assert [c.name for c in registry.capabilities()] == ["b", "a"]


def test_the_same_provider_replaces_its_capability_in_place() -> None:
    registry, provider = one()
    registry.register(capability("fan", "fan.on"), FakeProvider())
    registry.register(capability("light", "light.off", "light.dim"), provider)
    assert names(registry) == ["light.off", "light.dim", "fan.on"]


def test_another_provider_cannot_take_the_name() -> None:
    registry, _ = one()
    with pytest.raises(InvalidArguments, match="light is registered by another provider"):
        registry.register(capability("light", "light.off"), FakeProvider())
    assert names(registry) == ["light.dim"]


def test_a_command_of_equal_priority_is_refused_with_its_owner() -> None:
    registry, _ = one()
    with pytest.raises(InvalidArguments, match=r"light\.dim belongs to light"):
        registry.register(capability("lamp", "lamp.on", "light.dim"), FakeProvider())
    assert names(registry) == ["light.dim"]


async def test_a_higher_priority_wins_and_the_shadowed_command_comes_back() -> None:
    registry, first = one()
    winner = FakeProvider()
    registry.register(capability("lamp", "light.dim", priority=1), winner)
    await registry.invoke(Call(method="light.dim"), CONTEXT)
    registry.unregister("lamp")
    await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert (len(winner.asked), len(first.asked)) == (1, 1)


def test_a_lower_priority_registers_in_the_shadow() -> None:
    registry, _ = one()
    registry.register(capability("lamp", "light.dim", "lamp.on", priority=-1), FakeProvider())
    assert names(registry) == ["light.dim", "lamp.on"]
    registry.unregister("light")
    assert names(registry) == ["light.dim", "lamp.on"]


def test_a_command_that_stands_twice_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="stands twice"):
        Registry().register(capability("light", "light.on", "light.on"), FakeProvider())


def test_a_bad_schema_is_refused_with_its_command() -> None:
    bad = Capability(name="x", commands=(Command(name="x.y", description="x", parameters={"type": "text"}),))
    with pytest.raises(InvalidArguments, match=r"x\.y\.parameters\.type"):
        Registry().register(bad, FakeProvider())


def test_listeners_hear_each_change_until_they_leave() -> None:
    registry, provider = Registry(), FakeProvider()
    heard: list[int] = []
    leave = registry.on_change(heard.append)
    registry.register(capability("a", "a.one"), provider)
    registry.register(capability("a", "a.one"), provider)  # the same again changes nothing
    registry.unregister("a")
    leave()
    leave()
    registry.register(capability("a", "a.one"), provider)
    assert heard == [1, 2]
    assert registry.version == 3


def test_a_listener_that_fails_keeps_nobody_from_hearing() -> None:
    registry = Registry()
    heard: list[int] = []
    registry.on_change(lambda version: 1 // 0)
    registry.on_change(heard.append)
    registry.register(capability("a", "a.one"), FakeProvider())
    assert heard == [1]


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    registry, _ = one()
    with pytest.raises(NotFound, match=r'no command "light\.din"; did you mean light\.dim\?'):
        registry.find("light.din")
    with pytest.raises(NotFound, match='no capability "lights"; did you mean light'):
        registry.unregister("lights")


def test_a_withdrawn_command_is_told_as_not_running() -> None:
    registry, provider = one()
    registry.unregister("light")
    assert [command.name for command in registry.departed_commands()] == ["light.dim"]
    with pytest.raises(NotFound, match=r"offers light\.dim \(light\) is not running"):
        registry.find("light.dim")
    registry.register(capability("light", "light.dim"), provider)
    assert registry.departed_commands() == ()


def test_only_so_many_withdrawn_capabilities_are_remembered() -> None:
    registry = Registry()
    for index in range(40):
        registry.register(capability(f"c{index}", f"c{index}.x"), FakeProvider())
        registry.unregister(f"c{index}")
    assert len(registry.departed_commands()) == 32


def test_validate_fills_defaults_and_refuses_what_is_wrong() -> None:
    registry, _ = one()
    assert registry.validate(Call(method="light.dim")).args == {"percent": 50}
    assert registry.validate(Call(method="light.dim", args={"percent": 30.0})).args == {"percent": 30}
    with pytest.raises(InvalidArguments, match="percent must be a whole number from 0 to 100, not 101"):
        registry.validate(Call(method="light.dim", args={"percent": 101}))


async def test_a_call_reaches_its_provider_with_defaults() -> None:
    registry, provider = one()
    outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome == Outcome(say="light.dim done")
    assert provider.asked == [("light.dim", {"percent": 50})]


@pytest.mark.parametrize(
    ("call", "code"),
    [(Call(method="light.off"), "not_found"), (Call(method="light.dim", args={"x": 1}), "invalid_arguments")],
)
async def test_a_call_that_cannot_run_is_an_error_outcome(call: Call, code: str) -> None:
    registry, provider = one()
    outcome = await registry.invoke(call, CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == code
    assert provider.asked == []


async def test_a_dangerous_command_is_denied() -> None:
    registry, provider = one(risk=Risk.DANGEROUS)
    outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == "denied"
    assert outcome.error.message == "light.dim needs a person's yes, and nothing here can ask for it yet."
    assert provider.asked == []


async def test_a_providers_own_error_keeps_its_code() -> None:
    async def busy() -> Outcome:
        raise Busy("The lamp is busy.")

    registry, _ = one(busy)
    outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("busy", "The lamp is busy.")


async def test_an_unexpected_error_becomes_failed_and_its_text_stays_out_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken() -> Outcome:
        raise KeyError("a private word")

    registry, _ = one(broken)
    with caplog.at_level(logging.INFO):
        outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == "failed"
    assert "KeyError" in caplog.text
    assert "private" not in caplog.text + outcome.error.message


async def test_what_is_not_an_outcome_becomes_failed() -> None:
    async def wrong() -> Any:
        return {"say": "hi"}

    registry, _ = one(wrong)
    outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == "failed"


async def test_a_provider_that_takes_too_long_is_cancelled() -> None:
    registry, provider = one(hang, timeout_s=0.05)
    outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == "timed_out"
    assert "within 0.05 seconds" in outcome.error.message
    assert (provider.cancelled, provider.ended) == (["r1.1"], 1)


async def test_cancelling_a_call_cancels_the_provider_and_is_raised() -> None:
    registry, provider = one(hang)
    task = asyncio.create_task(registry.invoke(Call(method="light.dim"), CONTEXT))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (provider.cancelled, provider.ended) == (["r1.1"], 1)


async def test_a_provider_that_does_not_stop_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    free = asyncio.Event()

    async def stubborn() -> Outcome:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        return Outcome()

    registry, _ = one(stubborn, timeout_s=0.05)
    async with asyncio.timeout(5):
        outcome = await registry.invoke(Call(method="light.dim"), CONTEXT)
    assert outcome.error is not None
    assert outcome.error.code == "timed_out"
    assert "does not stop" in caplog.text
    free.set()


async def test_a_provider_that_calls_itself_off_is_an_error_outcome() -> None:
    async def off() -> Outcome:
        raise asyncio.CancelledError

    registry, _ = one(off)
    outcome = await registry.invoke(Call(method="light.dim"), CallContext("r1.1", "r1", language="zh"))
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("cancelled", "light.dim已取消。")


async def test_a_call_that_runs_is_not_ended_by_its_withdrawal() -> None:
    go = asyncio.Event()

    async def wait() -> Outcome:
        await go.wait()
        return Outcome(say="late")

    registry, _ = one(wait)
    task = asyncio.create_task(registry.invoke(Call(method="light.dim"), CONTEXT))
    await asyncio.sleep(0.01)
    registry.unregister("light")
    go.set()
    assert (await task).say == "late"
