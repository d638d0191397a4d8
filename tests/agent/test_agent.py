"""The agent over the real registry and real templates; a scripted pipeline stands where the model would be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from famulus.capabilities.command import Call, Capability, Command, Outcome, Risk, Sentence
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry
from famulus.core.errors import Busy, InvalidArguments, ModelUnavailable
from famulus.daemon.agent.agent import Agent
from famulus.daemon.agent.run import Event, Utterance
from famulus.daemon.agent.understand import Understander

ROOM = {"type": "string", "enum": ["kitchen", "all"], "default": "all"}
LAMP = Capability(
    name="lamp",
    commands=(
        Command(
            name="light.on",
            description="Turn a light on",
            parameters={"type": "object", "properties": {"room": ROOM}},
            sentences={
                "en": (Sentence(text="turn on [the] [{room}] light"),),
                "zh": (Sentence(text="开灯"),),
            },
        ),
        Command(
            name="light.dim",
            description="Dim a light",
            parameters={
                "type": "object",
                "properties": {"percent": {"type": "integer", "minimum": 0, "maximum": 100}},
                "required": ["percent"],
            },
            sentences={"en": (Sentence(text="dim to {percent} percent"),)},
        ),
        Command(name="light.hang", description="Never ends", sentences={"en": (Sentence(text="hang around"),)}),
        Command(name="light.burn", description="x", risk=Risk.DANGEROUS, sentences={"en": (Sentence(text="burn it"),)}),
        Command(name="light.crash", description="x", sentences={"en": (Sentence(text="crash now"),)}),
    ),
)


class Lamp:
    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], CallContext]] = []
        self.hanging = asyncio.Event()
        self.cancelled: list[str] = []

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        self.calls.append((command, args, context))
        if command == "light.hang":
            self.hanging.set()
            await asyncio.sleep(60)
        if command == "light.crash":
            raise RuntimeError("secret detail")
        return Outcome(say="The light is on.") if command == "light.on" else Outcome()

    async def cancel(self, call_id: str) -> None:
        self.cancelled.append(call_id)


class Pipeline:
    """Answers like the model would: with calls, an error, or only after it was released."""

    def __init__(self, answer: Callable[[str], list[Call]]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.release = asyncio.Event()
        self.release.set()

    async def understand(self, text: str, priority: str) -> list[Call]:
        self.asked.append(text)
        await self.release.wait()
        return self.answer(text)


class House:
    def __init__(self, answer: Callable[[str], list[Call]] = lambda text: [], *, budget_s: float = 5) -> None:
        self.lamp = Lamp()
        self.registry = Registry()
        self.registry.register(LAMP, self.lamp)
        self.pipeline = Pipeline(answer)
        self.agent = Agent(
            self.registry,
            Understander(self.registry, self.pipeline),  # type: ignore[arg-type]
            budget_s=budget_s,
            queue=3,
        )
        self.events: list[Event] = []
        self.agent.subscribe(self.events.append)

    async def ask(self, text: str, **utterance: Any) -> Any:
        async with asyncio.timeout(10):
            return await self.agent.start(Utterance(text, **utterance)).wait()


async def test_a_sentence_becomes_its_call_and_the_model_is_not_asked() -> None:
    house = House()
    result = await house.ask("Turn on the kitchen light.", session="s1", source="cli", owner=":1.5")
    assert (result.status, result.reply, result.decided_by) == ("done", "The light is on.", "sentences")
    ((command, args, context),) = house.lamp.calls
    assert (command, args) == ("light.on", {"room": "kitchen"})
    assert (context.source, context.session, context.language, context.owner) == ("cli", "s1", "en", ":1.5")
    assert house.pipeline.asked == []
    assert list(result.stages_ms) == ["intent", "execute", "summarise"]
    assert [e.kind for e in house.events] == ["stage", "stage", "stage", "finished"]


async def test_what_no_template_says_goes_to_the_model_and_its_calls_are_remembered() -> None:
    house = House(lambda text: [Call(method="light.on", args={"room": "kitchen"})])
    first = await house.ask("make it bright in the kitchen")
    again = await house.ask("Make it bright, in the kitchen!")
    assert (first.decided_by, again.decided_by) == ("model", "cache")
    assert len(house.pipeline.asked) == 1 and len(house.lamp.calls) == 2
    house.registry.unregister("lamp")
    house.registry.register(LAMP, house.lamp)
    assert (await house.ask("make it bright in the kitchen")).decided_by == "model"


async def test_what_nobody_understands_gets_a_plain_sentence_in_its_language() -> None:
    house = House()
    result = await house.ask("sing me a song")
    assert (result.status, result.reply, result.calls) == ("not_understood", "I did not understand that.", ())
    assert (await house.ask("给我唱首歌")).reply == "我没听懂。"


async def test_a_number_out_of_bounds_is_refused_by_name_and_no_model_is_asked_to_guess() -> None:
    house = House(lambda text: [Call(method="light.on", args={})])
    result = await house.ask("dim to 130%")
    assert (result.status, result.decided_by, result.calls) == ("not_understood", "sentences", ())
    assert "percent" in result.reply and "100" in result.reply
    assert house.pipeline.asked == [] and house.lamp.calls == []
    assert (await house.ask("dim to thirty percent")).status == "done"


async def test_a_command_whose_app_has_gone_is_named_as_such() -> None:
    house = House()
    house.registry.unregister("lamp")
    result = await house.ask("turn on the light")
    assert (result.status, result.error, result.decided_by) == ("failed", "not_found", "sentences")
    assert "lamp" in result.reply and "not running" in result.reply
    assert house.pipeline.asked == []


async def test_a_dangerous_command_never_runs_without_a_yes() -> None:
    house = House()
    result = await house.ask("burn it")
    assert (result.status, result.error) == ("failed", "denied")
    assert house.lamp.calls == []


async def test_an_app_that_breaks_gives_a_plain_sentence_without_its_details() -> None:
    result = await House().ask("crash now")
    assert result.status == "failed" and "secret" not in str(result.to_dict())


async def test_a_model_that_is_not_there_is_told_and_the_next_run_works() -> None:
    def missing(text: str) -> list[Call]:
        raise ModelUnavailable("The model x is missing; run: famulus models pull x")

    house = House(missing)
    result = await house.ask("sing me a song")
    assert (result.status, result.error) == ("failed", "model_unavailable")
    assert "famulus models pull" in result.reply
    assert (await house.ask("turn on the light")).status == "done"


async def test_a_bug_in_the_chain_ends_the_run_with_a_plain_sentence() -> None:
    def broken(text: str) -> list[Call]:
        raise RuntimeError("secret detail")

    result = await House(broken).ask("sing me a song")
    assert (result.status, result.error) == ("failed", "failed") and "secret" not in result.reply


async def test_cancel_reaches_the_call_of_the_run() -> None:
    house = House()
    run = house.agent.start(Utterance("hang around", owner=":1.5"))
    await house.lamp.hanging.wait()
    assert not house.agent.cancel(run.id, ":1.6")
    assert house.agent.cancel(run.id, ":1.5")
    assert (await run.wait()).status == "cancelled"
    assert house.lamp.cancelled == [f"{run.id}.1"]
    assert not house.agent.cancel(run.id)


async def test_an_app_that_goes_takes_its_runs_with_it() -> None:
    house = House()
    mine, other = (house.agent.start(Utterance("hang around", owner=o)) for o in (":1.5", ":1.6"))
    await house.lamp.hanging.wait()
    house.agent.cancel_owner(":1.5")
    assert (await mine.wait()).status == "cancelled"
    assert other.result is None
    await house.agent.close()
    assert (await other.wait()).status == "cancelled"


async def test_the_budget_ends_a_run_in_any_stage() -> None:
    house = House(budget_s=0.1)
    house.pipeline.release.clear()
    assert (await house.ask("sing me a song")).status == "timed_out"
    result = await house.ask("hang around")
    assert (result.status, result.error) == ("timed_out", "timed_out")


async def test_one_more_run_than_the_queue_holds_is_refused_but_stop_is_always_heard() -> None:
    house = House()
    house.pipeline.release.clear()
    runs = [house.agent.start(Utterance("sing me a song")) for _ in range(3)]
    with pytest.raises(Busy):
        house.agent.start(Utterance("sing me a song"))
    stop = house.agent.start(Utterance("Stop!"))
    assert (await stop.wait()).reply == "Stopped."
    assert {(await run.wait()).status for run in runs} == {"cancelled"}
    assert (await house.ask("stop")).reply == "Nothing is running."


async def test_stop_reaches_a_voice_turn_but_not_the_one_that_says_it() -> None:
    house = House()
    asked: list[tuple[str, str]] = []
    house.agent.also_cancel(lambda run_id, spare: asked.append((run_id, spare)) or True)
    result = await house.agent.start(Utterance("stop", source="voice"), "turn-7").wait()
    assert result.reply == "Stopped." and asked == [("", "turn-7")]
    assert house.agent.cancel("turn-8", "") and asked[-1] == ("turn-8", "")
    assert not house.agent.cancel("turn-8", ":1.5")


async def test_impossible_text_is_refused_at_once() -> None:
    with pytest.raises(InvalidArguments):
        House().agent.start(Utterance("x" * 2_000_000))


async def test_a_listener_that_fails_does_not_keep_others_from_hearing() -> None:
    house = House()

    def fails(event: Event) -> None:
        raise RuntimeError

    unsubscribe = house.agent.subscribe(fails)
    heard: list[Event] = []
    house.agent.subscribe(heard.append)
    await house.ask("turn on the light")
    assert heard and len(house.events) == len(heard)
    unsubscribe()
    unsubscribe()


async def test_a_sentence_right_after_registration_waits_for_its_templates() -> None:
    house = House()
    await house.ask("turn on the light")
    bell = Capability(
        name="bell",
        commands=(
            Command(
                name="bell.ring",
                description="Ring",
                sentences={"en": tuple(Sentence(text=f"ring [the] (bell|gong) number {n}") for n in range(200))},
            ),
        ),
    )
    house.registry.register(bell, house.lamp)
    assert (await house.ask("ring the gong number 199")).calls[0].method == "bell.ring"


async def test_a_spoken_run_tells_what_hearing_took() -> None:
    house = House()
    result = await house.ask("turn on the light", source="voice", voice_ms={"listen": 900.0, "transcribe": 80.0})
    assert result.to_dict()["voice_ms"] == {"listen": 900.0, "transcribe": 80.0}
    assert house.events[-1].data["voice_ms"] == {"listen": 900.0, "transcribe": 80.0}
    assert "voice_ms" not in (await house.ask("turn on the light")).to_dict()


@pytest.mark.parametrize(
    ("text", "known"),
    [("Turn on the light.", True), ("开灯", True), ("Stop!", True), ("Burn on the light.", False)],
)
async def test_sentences_and_stop_words_are_known(text: str, known: bool) -> None:
    house = House()
    assert await Understander(house.registry, None).knows(text) is known


async def test_run_ids_are_unique_over_restarts() -> None:
    ids = {agent.new_run_id() for agent in (House().agent, House().agent) for _ in range(100)}
    assert len(ids) == 200
