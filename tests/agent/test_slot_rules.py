"""Arguments by rules: numbers, units, names, free words, corrections; nothing invented, nothing clamped."""

from __future__ import annotations

from typing import Any

import pytest
from famulus.capabilities.command import Command, Example, Language, Sentence
from famulus.daemon.agent.meaning.arguments import Reading, read_arguments
from famulus.daemon.agent.meaning.disfluency import make_fluent
from famulus.daemon.agent.meaning.quantities import find_quantities

ROOMS = {
    "type": "string",
    "enum": ["kitchen", "bedroom", "all"],
    "default": "all",
    "x-names": {"kitchen": ["厨房"], "bedroom": ["卧室"], "all": ["every", "所有"]},
}
COLOURS = {"type": "string", "enum": ["red", "blue"], "x-names": {"red": ["红色", "crimson"], "blue": ["蓝"]}}


def command(name: str, parameter: str, schema: dict[str, Any], description: str = "x", **more: Any) -> Command:
    required = [] if "default" in schema else [parameter]
    parameters = {"type": "object", "properties": {parameter: schema}, "required": required}
    return Command(name=name, description=description, parameters=parameters, **more)


LIGHT = command("light.on", "room", ROOMS)
COLOUR = command("light.color", "color", COLOURS)
VOLUME = command("volume.set", "percent", {"type": "integer", "minimum": 0, "maximum": 100})
TIMER = command("timer.set", "minutes", {"type": "integer", "minimum": 1, "maximum": 600})
PAUSE_S = command("pause", "length", {"type": "integer", "minimum": 1, "maximum": 9000}, "Wait so many seconds")
HEAT = command("thermostat.set", "celsius", {"type": "integer", "minimum": 5, "maximum": 35})
CHANNEL = command("tv.channel", "number", {"type": "integer", "minimum": 1, "maximum": 99})
REMINDER = command(
    "reminder.add",
    "text",
    {"type": "string"},
    sentences={
        "en": (Sentence(text="remind me (to|that) {text}"), Sentence(text="i must {text} help me remember")),
        "zh": (Sentence(text="提醒我{text}"),),
    },
)
MUSIC = command(
    "media.play",
    "query",
    {"type": "string", "default": ""},
    sentences={"en": (Sentence(text="play [some] music"), Sentence(text="resume playback"))},
    examples=(
        Example(text="play bach", args={"query": "bach"}),
        Example(text="some jazz would be nice", args={"query": "jazz"}),
        Example(text="播放莫扎特", language="zh", args={"query": "莫扎特"}),
    ),
)


def read(what: Command, text: str) -> Reading:
    language: Language = "zh" if any("一" <= char <= "鿿" for char in text) else "en"
    return read_arguments(what, make_fluent(text, language), language)


def value(what: Command, text: str) -> Any:
    """The one value that a text gives, or the fault."""
    reading = read(what, text)
    if reading.fault:
        return reading.fault
    (args,) = reading.args
    return next(iter(args.values()), None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("volume to 30", 30),
        ("volume to thirty five percent", 35),
        ("one hundred percent", 100),
        ("make it half as loud", 50),
        ("three quarters of the volume", 75),
        ("a third of it", 33),
        ("as loud as you can", 100),
        ("all the way down", 0),
        ("mute the speaker", 0),
        ("from 20 to 40", 40),
        ("set the volume two sixteen", 16),
        ("sixty i mean forty percent", 40),
        ("eighty no sorry thirty five", 35),
        ("twenty no wait five", 5),
        ("音量调到三十", 30),
        ("百分之三十五", 35),
        ("音量三成", 30),
        ("四分之一", 25),
        ("声音要一半", 50),
        ("音量最大", 100),
        ("静音", 0),
        ("音量一百 不对 八十", 80),
        ("volume 300", "out_of_range"),
        ("音量一百八", "out_of_range"),
        ("louder", "missing"),
        ("声音大一点", "missing"),
        ("volume in ten minutes", "missing"),
        ("21 degrees", "missing"),
    ],
)
def test_a_level_in_percent(text: str, expected: Any) -> None:
    assert value(VOLUME, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ten minutes", 10),
        ("an hour", 60),
        ("a two-hour timer", 120),
        ("an hour and a half", 90),
        ("one and a half hours", 90),
        ("an hour and twenty minutes", 80),
        ("half an hour", 30),
        ("three quarters of an hour", 45),
        ("timer ten no wait make that twelve minutes", 12),
        ("120 seconds", 2),
        ("ninety seconds", "out_of_range"),
        ("twelve hours", "out_of_range"),
        ("两个小时", 120),
        ("一个半小时", 90),
        ("半小时", 30),
        ("三刻钟", 45),
        ("一小时二十分钟", 80),
        ("at seven o'clock", "missing"),
        ("at half past six", "missing"),
        ("at 6:30", "missing"),
        ("七点半", "missing"),
        ("20 percent", "missing"),
        ("skip this one", "missing"),
        ("来一首歌", "missing"),
    ],
)
def test_a_duration_in_the_parameters_unit(text: str, expected: Any) -> None:
    assert value(TIMER, text) == expected


def test_the_unit_may_stand_in_the_commands_description() -> None:
    assert value(PAUSE_S, "two minutes") == 120


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("heat it to twenty two", 22),
        ("19 degrees celsius", 19),
        ("70 degrees fahrenheit", 21),
        ("26度", 26),
        ("二十六度", 26),
        ("20.5 degrees", "out_of_range"),
        ("180 degrees", "out_of_range"),
        ("thirty percent", "missing"),
    ],
)
def test_a_temperature(text: str, expected: Any) -> None:
    assert value(HEAT, text) == expected


def test_a_plain_number_takes_no_unit() -> None:
    assert value(CHANNEL, "channel five") == 5
    assert value(CHANNEL, "for five minutes") == "missing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the kitchen light", ["kitchen"]),
        ("the bed room light", ["bedroom"]),
        ("every light in the kitchen", ["kitchen"]),
        ("every light", ["all"]),
        ("the light", []),
        ("not the kitchen the bedroom", ["bedroom"]),
        ("the kitchen no sorry the bedroom", ["bedroom"]),
        ("the kitchen and bedroom lights", ["kitchen", "bedroom"]),
        ("厨房和卧室的灯", ["kitchen", "bedroom"]),
        ("把所有的灯打开", ["all"]),
    ],
)
def test_a_name_and_its_further_forms(text: str, expected: list[str]) -> None:
    assert [args["room"] for args in read(LIGHT, text).args if args] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("make it crimson", "red"),
        ("from red to blue", "blue"),
        ("变成蓝的", "blue"),
        ("make it brown", "missing"),
        ("I hired him", "missing"),
    ],
)
def test_a_required_name_must_be_said(text: str, expected: str) -> None:
    assert value(COLOUR, text) == expected


@pytest.mark.parametrize(
    ("what", "text", "expected"),
    [
        (REMINDER, "remind me to buy milk, please", "buy milk"),
        (REMINDER, "could you remind me that I owe Bob five pounds", "I owe Bob five pounds"),
        (REMINDER, "I must call Anna, so please help me remember", "call Anna"),
        (REMINDER, "提醒我晚上吃药吧", "晚上吃药"),
        (REMINDER, "what a nice day", "missing"),
        (MUSIC, "play Light My Fire by The Doors", "Light My Fire by The Doors"),
        (MUSIC, "some Chopin would help", "Chopin"),
        (MUSIC, "play some music", None),
        (MUSIC, "播放王菲的歌", "王菲的歌"),
        (MUSIC, "go on with it", None),
    ],
)
def test_free_words_follow_the_words_that_the_command_declares(what: Command, text: str, expected: Any) -> None:
    assert value(what, text) == expected


def test_what_rules_cannot_read_is_missing() -> None:
    what = command("x", "flag", {"type": "boolean"})
    assert value(what, "yes true") == "missing"


@pytest.mark.parametrize(
    ("said", "language", "meant"),
    [
        ("um set the uh volume", "en", "set the volume"),
        ("can you can you turn of the light", "en", "can you turn off the light"),
        ("play Duran Duran", "en", "play Duran Duran"),
        ("of course", "en", "of course"),
        ("嗯 定时 定时半小时", "zh", "定时半小时"),
        ("那个 那个 把灯关了", "zh", "把灯关了"),
        ("um", "en", "um"),
    ],
)
def test_fillers_and_repetitions_carry_nothing(said: str, language: Language, meant: str) -> None:
    assert make_fluent(said, language).text == meant


def test_neighbouring_numbers_stay_apart_across_a_correction() -> None:
    fluent = make_fluent("twenty no sorry five", "en")
    assert fluent.text[fluent.corrected_from :] == "five"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "。。。",
        "百分之",
        "分之",
        "零分之一",
        "hundred hundred hundred",
        "half half",
        "9" * 400,
        "一" * 330,
        "五百" * 100,
    ],
)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_odd_numbers_break_nothing(text: str, language: Language) -> None:
    find_quantities(text, language)
    for what in (VOLUME, TIMER, LIGHT, REMINDER):
        read_arguments(what, make_fluent(text, language), language)
