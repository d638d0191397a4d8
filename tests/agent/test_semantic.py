"""From probabilities to calls, and the whole matcher over the real sentence encoder."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from famulus.capabilities.command import Call, Capability, Command, Example, Language, Outcome, Risk, Sentence
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry
from famulus.core.errors import ModelUnavailable
from famulus.daemon.agent.meaning.clauses import MAX_CLAUSES, split_clauses
from famulus.daemon.agent.meaning.decide import CHANCE, SURE, Meaning, decide, spans_of
from famulus.daemon.agent.meaning.declared_words import is_in_declared_words
from famulus.daemon.agent.meaning.disfluency import make_fluent
from famulus.daemon.agent.meaning.examples import NONE, training_set
from famulus.daemon.agent.meaning.expand import readings
from famulus.daemon.agent.meaning.matcher import SemanticMatcher
from famulus.daemon.agent.run import Utterance
from famulus.daemon.agent.understand import Understander
from famulus.engines.handles import EmbedderHandle
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.slot import Slot
from famulus.models.catalogue import Catalogue
from famulus.models.store import Store, default_root

PERCENT = {"type": "object", "properties": {"percent": {"type": "integer", "minimum": 0, "maximum": 100}}}
ROOM = {"type": "object", "properties": {"room": {"type": "string", "enum": ["kitchen", "bedroom"]}}}


def examples(language: Language, *texts: str) -> tuple[Example, ...]:
    return tuple(Example(text=text, language=language) for text in texts)


LAMP = Command(
    name="lamp.on",
    description="Turn the lamp on",
    parameters=ROOM,
    sentences={"en": (Sentence(text="turn on the [{room}] lamp"),)},
    examples=examples(
        "en", "lamp on", "give me some light", "light up the place", "it is dark", "I can't see", "we need light"
    )
    + examples("zh", "开灯", "把灯打开", "太黑了"),
)
VOLUME = Command(
    name="volume.set",
    description="Set the volume in percent",
    parameters={**PERCENT, "required": ["percent"]},
    examples=examples(
        *("en", "volume at thirty", "make the sound fifty percent", "louder, go to eighty", "turn the sound to ten"),
        *("quieter, twenty percent", "speaker at forty"),
    )
    + examples("zh", "音量调到三十", "声音开到五十"),
)
PLAY = Command(
    name="music.play",
    description="Play music",
    parameters={"type": "object", "properties": {"query": {"type": "string", "default": ""}}},
    sentences={"en": (Sentence(text="play [some] music"), Sentence(text="play the song {query}"))},
    examples=(
        Example(text="play mozart", args={"query": "mozart"}),
        Example(text="put on abba", args={"query": "abba"}),
        *examples("en", "let me hear a song", "a tune would be nice", "I want to hear music", "start the music"),
        *examples("zh", "放音乐", "来首歌"),
    ),
)
REBOOT = Command(
    name="system.reboot",
    description="Restart the device",
    risk=Risk.DANGEROUS,
    sentences={"en": (Sentence(text="(reboot|restart) [the (device|system)]"),), "zh": (Sentence(text="重启[设备]"),)},
    examples=examples(
        *("en", "please restart yourself", "reboot now", "the device hangs, reboot it", "do a restart"),
        *("you should restart", "power cycle the system"),
    )
    + examples("zh", "重新启动系统", "设备重启一下"),
)
COMMANDS = (LAMP, VOLUME, PLAY, REBOOT)
BY_NAME = {command.name: command for command in COMMANDS}

Classify = Callable[[str], dict[str, float]]


def meant(
    text: str, classify: Classify, language: Language = "en", templates: dict[tuple[int, int], list[Call]] | None = None
) -> Meaning:
    """What ``decide`` makes of a sentence whose parts have these probabilities."""
    said = make_fluent(text, language)
    clauses = split_clauses(said.text, language)
    probabilities = {
        (first, past): classify(said.text[clauses[first][0] : clauses[past - 1][1]])
        for first, past in spans_of(clauses)
    }
    return decide(said, language, clauses, probabilities, BY_NAME, templates=templates)


def table(rows: dict[str, dict[str, float]], otherwise: dict[str, float] | None = None) -> Classify:
    return lambda text: rows.get(text, otherwise or {NONE: 0.9})


def test_a_sure_command_is_called_with_what_was_said() -> None:
    meaning = meant("it is dark in the kitchen", lambda _: {"lamp.on": 0.9, NONE: 0.1})
    assert meaning == Meaning("sure", (Call(method="lamp.on", args={"room": "kitchen"}),), 0.9, ("lamp.on",))


@pytest.mark.parametrize(("share", "zone"), [(SURE + 0.01, "sure"), (SURE - 0.01, "unsure"), (CHANCE - 0.01, "none")])
def test_three_zones(share: float, zone: str) -> None:
    meaning = meant("something dark", lambda _: {"lamp.on": share, NONE: share - 0.05, "music.play": 0.1})
    assert meaning.zone == zone
    assert bool(meaning.calls) == (zone != "none")
    assert meaning.candidates[0] == "lamp.on"


def test_a_command_without_its_argument_is_not_offered_and_its_probability_counts_against_the_others() -> None:
    meaning = meant("louder", lambda _: {"volume.set": 0.7, "lamp.on": 0.2, NONE: 0.1})
    assert meaning.zone != "sure"
    assert all(call.method != "volume.set" for call in meaning.calls)


def test_a_value_out_of_range_is_no_other_command_either() -> None:
    meaning = meant("volume at 300", lambda _: {"volume.set": 0.6, "lamp.on": 0.39, NONE: 0.01})
    assert meaning.zone == "none"


def test_two_wishes_in_spoken_order() -> None:
    meaning = meant(
        "give me light and then go to fifty percent",
        table(
            {"give me light": {"lamp.on": 0.95}, "go to fifty percent": {"volume.set": 0.9}},
            {"volume.set": 0.6, "lamp.on": 0.3},
        ),
    )
    assert [call.method for call in meaning.calls] == ["lamp.on", "volume.set"]


def test_what_only_the_whole_says_is_not_split() -> None:
    meaning = meant(
        "I cannot hear a word. Eighty, please",
        table({"I cannot hear a word": {NONE: 0.8}, "Eighty, please": {NONE: 0.5}}, {"volume.set": 0.8}),
    )
    assert meaning.calls == (Call(method="volume.set", args={"percent": 80}),)


def test_small_talk_beside_a_wish_is_dropped() -> None:
    meaning = meant(
        "my day was long, lamp on", table({"lamp on": {"lamp.on": 0.99}, "my day was long": {NONE: 0.95}}, {NONE: 0.5})
    )
    assert [call.method for call in meaning.calls] == ["lamp.on"]


def test_a_clause_that_a_template_knows_needs_no_likeness_unless_it_could_do_harm() -> None:
    unlike = table({"blah": {NONE: 0.9}}, {NONE: 0.4})
    known = meant("turn on the lamp, blah", unlike, templates={(0, 1): [Call(method="lamp.on")]})
    assert known.calls == (Call(method="lamp.on"),)
    quoted = meant("he said: reboot", unlike, templates={(1, 2): [Call(method="system.reboot")]})
    assert quoted.calls == ()


def test_two_rooms_are_two_calls_and_the_same_wish_twice_is_one() -> None:
    rooms = meant("light in the kitchen and bedroom", table({}, {"lamp.on": 0.9}))
    assert [call.args["room"] for call in rooms.calls] == ["kitchen", "bedroom"]
    twice = meant("lamp on, lamp on", table({"lamp on": {"lamp.on": 0.99}}, {"lamp.on": 0.6}))
    assert len(twice.calls) == 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("restart the washing machine", "en"),
        ("my phone reboots all the time", "en"),
        ("what does reboot mean", "en"),
        ("a fresh start might cure you", "en"),
        ("重启路由器", "zh"),
        ("重启是什么意思", "zh"),
    ],
)
def test_a_dangerous_command_needs_its_own_words_and_no_others(text: str, language: Language) -> None:
    assert not is_in_declared_words(text, REBOOT, language)
    assert meant(text, lambda _: {"system.reboot": 0.99}, language).calls == ()


@pytest.mark.parametrize(("text", "language"), [("restart now please", "en"), ("请把设备重启一下", "zh")])
def test_a_dangerous_command_in_its_own_words_needs_high_probability_too(text: str, language: Language) -> None:
    assert meant(text, lambda _: {"system.reboot": 0.95}, language).calls == (Call(method="system.reboot"),)
    assert meant(text, lambda _: {"system.reboot": 0.6, NONE: 0.4}, language).calls == ()


@pytest.mark.parametrize(
    ("text", "language", "parts"),
    [
        ("a and then b", "en", ["a", "b"]),
        ("a, b and c.", "en", ["a", "b", "c."]),
        ("sandals", "en", ["sandals"]),
        ("开灯，然后放歌", "zh", ["开灯", "放歌"]),
        ("开灯再放歌", "zh", ["开灯", "放歌"]),
        (", ".join("abcdefgh"), "en", [", ".join("abcdefgh")]),
    ],
)
def test_clauses(text: str, language: Language, parts: Sequence[str]) -> None:
    spans = split_clauses(text, language)
    assert [text[start:end] for start, end in spans] == list(parts)
    assert len(spans) <= MAX_CLAUSES


def test_readings_of_a_template_are_a_draw_that_never_changes() -> None:
    template = "(a|b|c|d) [e] {room}"
    assert readings(template, str.upper, 3) == readings(template, str.upper, 3)
    assert set(readings(template, str.upper)) == {f"{x} ROOM" for x in "abcd"} | {f"{x} e ROOM" for x in "abcd"}


def test_training_names_every_command_and_an_apps_own_words_are_never_none() -> None:
    thief = replace_examples(LAMP, "tell me a joke")
    learnt = training_set((thief, VOLUME))
    labels = dict(zip(learnt.texts, learnt.labels, strict=True))
    assert set(learnt.labels) == {"lamp.on", "volume.set", NONE}
    assert labels["tell me a joke"] == "lamp.on"
    assert learnt.key == training_set((thief, VOLUME)).key != training_set((LAMP, VOLUME)).key


def replace_examples(command: Command, *texts: str) -> Command:
    return command.model_copy(update={"examples": examples("en", *texts)})


class Deaf:
    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        return Outcome()

    async def cancel(self, call_id: str) -> None: ...


class Model:
    """What a language model would say, and what it was asked."""

    def __init__(self, *calls: Call) -> None:
        self.calls = list(calls)
        self.asked: list[str] = []

    async def understand(self, text: str, priority: str) -> list[Call]:
        self.asked.append(text)
        return self.calls


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(8 << 30, 0)
    yield pool
    await pool.close()


@pytest.fixture
def encoder(pool: Pool, tmp_path: Path) -> Slot[EmbedderHandle]:
    files = Store(default_root()).files(Catalogue.load().entry("use"))
    options = {**{name: str(path) for name, path in files.items()}, "cache_dir": str(tmp_path)}
    return Slot("use", EmbedderHandle, lambda: ProcessHost("use", options), pool=pool, need_bytes=200 << 20)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(Capability(name="home", commands=COMMANDS), Deaf())
    return registry


def matcher(slot: Slot[EmbedderHandle], registry: Registry) -> SemanticMatcher:
    return SemanticMatcher(slot, commands=registry.commands, timeout_s=30)


@pytest.mark.models
async def test_paraphrases_chat_and_dangers(encoder: Slot[EmbedderHandle], registry: Registry) -> None:
    semantic = matcher(encoder, registry)
    dark = await semantic.meaning("it is so dark in the bedroom", "en", "voice")
    assert (dark.zone, dark.calls) == ("sure", (Call(method="lamp.on", args={"room": "bedroom"}),))
    chinese = await semantic.meaning("请把灯打开", "zh", "voice")
    assert [call.method for call in chinese.calls] == ["lamp.on"]
    for text in ("what is the capital of france", "tell me a joke", "what does the word reboot mean"):
        assert (await semantic.meaning(text, "en", "voice")).calls == ()


@pytest.mark.models
async def test_new_commands_are_learnt_and_a_lost_worker_learns_again(
    encoder: Slot[EmbedderHandle], registry: Registry
) -> None:
    semantic = matcher(encoder, registry)
    assert (await semantic.meaning("shut the roller blinds", "en", "voice")).calls == ()
    words = (
        "close the roller blinds",
        "shut the roller blinds please",
        "roller blinds down",
        "lower the roller blinds",
    )
    blind = Command(name="blind.close", description="Close the roller blinds", examples=examples("en", *words * 2))
    registry.register(Capability(name="blinds", commands=(blind,)), Deaf())
    meaning = await semantic.meaning("shut the roller blinds", "en", "voice")
    assert meaning.calls == (Call(method="blind.close"),)
    pid = encoder.snapshot().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ModelUnavailable):
        for _ in range(50):
            await semantic.meaning("shut the roller blinds", "en", "voice")
            if encoder.snapshot().pid != pid:
                raise ModelUnavailable("the worker was replaced before anyone asked it")
    assert (await semantic.meaning("shut the roller blinds", "en", "voice")).calls == meaning.calls


@pytest.mark.models
async def test_a_command_with_few_phrases_is_left_to_the_model(
    encoder: Slot[EmbedderHandle], registry: Registry
) -> None:
    thin = Command(name="fountain.start", description="Start the fountain")
    registry.register(Capability(name="garden", commands=(thin,)), Deaf())
    model = Model(Call(method="fountain.start"))
    understander = Understander(registry, model, semantic=matcher(encoder, registry))  # type: ignore[arg-type]
    found = await understander.ask_model(Utterance("get the fountain running"))
    assert (found.decided_by, found.calls) == ("model", (Call(method="fountain.start"),))
    model.calls = [Call(method="system.reboot")]
    assert (await understander.ask_model(Utterance("get the fountain running"))).calls == ()
    asked = len(model.asked)
    assert (await understander.ask_model(Utterance("who wrote romeo and juliet"))).calls == ()
    assert len(model.asked) == asked


@pytest.mark.models
async def test_the_model_is_not_asked_where_likeness_is_certain(
    encoder: Slot[EmbedderHandle], registry: Registry
) -> None:
    model = Model(Call(method="system.reboot"))
    understander = Understander(registry, model, semantic=matcher(encoder, registry))  # type: ignore[arg-type]
    assert await understander.quick(Utterance("it is so dark in the bedroom")) is None
    found = await understander.ask_model(Utterance("it is so dark in the bedroom"))
    assert (found.decided_by, [call.method for call in found.calls]) == ("semantic", ["lamp.on"])
    again = await understander.quick(Utterance("It is so dark in the bedroom!"))
    assert again == replace(found, decided_by="cache")
    assert (await understander.ask_model(Utterance("tell me a joke"))).calls == ()
    assert model.asked == []


@pytest.mark.models
async def test_free_words_do_not_swallow_a_second_wish(encoder: Slot[EmbedderHandle], registry: Registry) -> None:
    understander = Understander(registry, None, semantic=matcher(encoder, registry))

    async def calls_of(text: str) -> list[Call]:
        found = await understander.quick(Utterance(text)) or await understander.ask_model(Utterance(text))
        return list(found.calls)

    assert await calls_of("Play the song Yesterday and make the sound fifty percent") == [
        Call(method="music.play", args={"query": "Yesterday"}),
        Call(method="volume.set", args={"percent": 50}),
    ]
    (alone,) = await calls_of("Play the song Bonnie and Clyde")
    assert alone.args["query"].casefold() == "bonnie and clyde"
    assert await calls_of("um turn on the the lamp") == [Call(method="lamp.on")]


async def test_a_models_numbers_must_be_those_that_were_said(registry: Registry) -> None:
    model = Model(Call(method="volume.set", args={"percent": 100}))
    understander = Understander(registry, model)  # type: ignore[arg-type]
    assert (await understander.ask_model(Utterance("ring in a quarter of an hour"))).calls == ()
    model.calls = [Call(method="volume.set", args={"percent": 25})]
    assert (await understander.ask_model(Utterance("a quarter of the sound"))).calls == tuple(model.calls)


async def test_without_the_encoder_the_model_answers_as_before(pool: Pool, registry: Registry) -> None:
    def missing() -> ProcessHost:
        raise ModelUnavailable("use is missing; run famulus models pull use.")

    slot: Slot[EmbedderHandle] = Slot("use", EmbedderHandle, missing, pool=pool, need_bytes=1)
    model = Model(Call(method="lamp.on"))
    understander = Understander(registry, model, semantic=matcher(slot, registry))  # type: ignore[arg-type]
    found = await understander.ask_model(Utterance("it is so dark"))
    assert (found.decided_by, found.calls) == ("model", (Call(method="lamp.on"),))
    alone = Understander(registry, None, semantic=matcher(slot, registry))
    assert (await alone.ask_model(Utterance("it is so dark"))).calls == ()
    await matcher(slot, registry).prefetch()
    assert "use is missing" in slot.snapshot().reason
