from __future__ import annotations

from typing import Any

import pytest
from famulus.capabilities.command import Call, Command, Sentence
from famulus.daemon.agent.sentences import SentenceMatcher
from famulus.daemon.agent.text import language_of, normalise

ROOM = {
    "type": "string",
    "enum": ["living room", "kitchen", "bedroom", "all"],
    "x-names": {"kitchen": ["厨房"], "bedroom": ["卧室"]},
}


def command(name: str, properties: dict[str, Any], en: list[str], zh: list[str] | None = None) -> Command:
    return Command(
        name=name,
        description=name,
        parameters={"type": "object", "properties": properties},
        sentences={
            "en": tuple(Sentence(text=t) for t in en),
            "zh": tuple(Sentence(text=t) for t in zh or []),
        },
    )


COMMANDS = [
    command("light.on", {"room": ROOM}, ["(turn|switch) on [the] [{room}] (light|lamp)"], ["[把]{room}[的]灯打开"]),
    command("light.off", {"room": ROOM}, ["(turn|switch) off [the] [{room}] (light|lamp)"], ["关[{room}[的]]灯"]),
    command("curtain.open", {}, ["open [the] curtain"], ["打开窗帘"]),
    command(
        "volume.set",
        {"percent": {"type": "integer", "minimum": 0, "maximum": 100}},
        ["set [the] volume to {percent} [percent]"],
        ["[把]音量调到[百分之]{percent}"],
    ),
    command("note.add", {"text": {"type": "string"}}, ["(remember|note) [that] {text}"]),
    command("note.shopping", {"item": {"type": "string"}}, ["remember to buy {item}"]),
]
MATCHERS = {"en": SentenceMatcher("en", COMMANDS), "zh": SentenceMatcher("zh", COMMANDS)}


def match(text: str) -> list[Call]:
    language = language_of(text)
    return MATCHERS[language].match(normalise(text, language))


@pytest.mark.parametrize(
    ("text", "method", "args"),
    [
        ("Turn on the kitchen light,", "light.on", {"room": "kitchen"}),
        ("please switch on the living room lamp", "light.on", {"room": "living room"}),
        ("turn on the light", "light.on", {}),
        ("Set the volume to thirty per cent.", "volume.set", {"percent": 30}),
        ("set the volume to 30%", "volume.set", {"percent": 30}),
        ("set volume to ninety-nine percent", "volume.set", {"percent": 99}),
        ("音量调到30%", "volume.set", {"percent": 30}),
        ("把音量调到百分之三十", "volume.set", {"percent": 30}),
        ("把厨房的灯打开", "light.on", {"room": "kitchen"}),
        ("请关卧室灯", "light.off", {"room": "bedroom"}),
        ("remember that the key is under the pot", "note.add", {"text": "the key is under the pot"}),
    ],
)
def test_words_digits_and_signs_give_the_same_call(text: str, method: str, args: dict[str, Any]) -> None:
    assert match(text) == [Call(method=method, args=args)]


@pytest.mark.parametrize(("said", "number"), [("137", 137), ("two hundred", 200), ("ninety-nine", 99), ("600", 600)])
def test_a_wide_range_reads_all_digits_and_the_numbers_people_say(said: str, number: int) -> None:
    minutes = {"minutes": {"type": "integer", "minimum": 1, "maximum": 600}}
    matcher = SentenceMatcher("en", [command("timer.set", minutes, ["timer for {minutes} minutes"])])
    assert matcher.match(f"timer for {said} minutes") == [Call(method="timer.set", args={"minutes": number})]


@pytest.mark.parametrize(("said", "number"), [("130", 130), ("two hundred", 200), ("minus five", -5)])
def test_a_number_out_of_bounds_is_read_so_that_it_can_be_refused_by_name(said: str, number: int) -> None:
    assert match(f"set the volume to {said} percent") == [Call(method="volume.set", args={"percent": number})]


def test_two_wishes_give_two_calls_in_spoken_order() -> None:
    calls = match("Turn off the lamp and open the curtain.")
    assert [call.method for call in calls] == ["light.off", "curtain.open"]
    assert [call.method for call in match("关灯，然后打开窗帘")] == ["light.off", "curtain.open"]


def test_two_wishes_of_which_one_is_unknown_are_left_to_the_model() -> None:
    assert match("turn off the lamp and make me happy") == []


def test_more_literal_words_win_over_open_ones() -> None:
    assert match("remember to buy milk") == [Call(method="note.shopping", args={"item": "milk"})]


@pytest.mark.parametrize("text", ["make it bright", "turn on the kitchen sink"])
def test_what_no_template_says_matches_nothing(text: str) -> None:
    assert match(text) == []


def test_a_sentence_longer_than_speech_is_not_tried() -> None:
    assert match("turn on the light " * 100) == []


def test_an_update_keeps_what_was_compiled_and_forgets_what_has_gone() -> None:
    matcher = SentenceMatcher("en", COMMANDS)
    matcher.update(COMMANDS[1:])
    assert matcher.match("turn on the light") == []
    assert matcher.match("turn off the light")
    matcher.update(COMMANDS)
    assert matcher.match("turn on the light")


def test_fixed_arguments_of_a_template_are_part_of_the_call() -> None:
    half = Command(
        name="timer.set",
        description="timer",
        parameters={"type": "object", "properties": {"minutes": {"type": "integer", "minimum": 1, "maximum": 600}}},
        sentences={"en": (Sentence(text="[set] [a] timer for half an hour", args={"minutes": 30}),)},
    )
    assert SentenceMatcher("en", [half]).match("timer for half an hour") == [
        Call(method="timer.set", args={"minutes": 30})
    ]
