"""Manifests: what is taken, and that a developer hears of every problem at once with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from famulus.capabilities.command import Capability
from famulus.capabilities.manifest import MAX_MANIFEST_BYTES, parse_manifest
from famulus.capabilities.template import parse_template
from famulus.core.errors import InvalidArguments
from hypothesis import given
from hypothesis import strategies as st

ROOM = {"type": "string", "enum": ["kitchen", "bedroom"], "x-names": {"kitchen": ["厨房"]}}


def command(**changes: Any) -> dict[str, Any]:
    return {
        "name": "light.on",
        "description": "Turn a light on",
        "parameters": {"type": "object", "properties": {"room": ROOM}},
        "sentences": {"en": [{"text": "(turn|switch) on [the] [{room}] light"}], "zh": [{"text": "打开[{room}的]灯"}]},
        "examples": [{"text": "It is dark in the kitchen", "args": {"room": "kitchen"}}],
        **changes,
    }


def manifest(*commands: dict[str, Any], **changes: Any) -> str:
    return json.dumps({"name": "light", "commands": list(commands) or [command()], **changes})


def refusal(text: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        parse_manifest(text)
    return caught.value.message


def test_a_good_manifest_becomes_a_capability() -> None:
    capability = parse_manifest(manifest(priority=5))
    assert (capability.name, capability.priority) == ("light", 5)
    assert capability.commands[0].sentences["zh"][0].text == "打开[{room}的]灯"


def test_a_manifest_survives_its_own_json() -> None:
    capability = parse_manifest(manifest())
    assert parse_manifest(capability.model_dump_json()) == capability


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ('{"name": }', "not JSON: Expecting value at line 1, column 10"),
        ("[" * 100_000, "nested too deeply"),
        ('{"priority": NaN}', "NaN is not a JSON number"),
        ('{"priority": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "must be a JSON object, not a list"),
        ("x" * (MAX_MANIFEST_BYTES + 1), f"the limit is {MAX_MANIFEST_BYTES}"),
        ("{}", "name: is missing\ncommands: is missing"),
        (manifest(nme="x"), "nme: there is no such key; did you mean name?"),
        (manifest(command(timeout=5)), "commands[0].timeout: there is no such key; did you mean timeout_s?"),
        (manifest(command(risk="high")), "commands[0].risk: input should be 'safe', 'notable' or 'dangerous'"),
        (manifest(command(name="Light On")), "commands[0].name: string should match pattern"),
        (manifest(command(sentences={"de": []})), "commands[0].sentences.de"),
        (manifest(command(), command()), "commands[1].name: light.on is the name of commands[0] already"),
        (manifest(command(parameters={"type": "object", "oneOf": []})), 'commands[0].parameters: "oneOf" is not'),
    ],
)
def test_a_bad_manifest_is_refused_with_the_place(text: str, told: str) -> None:
    assert told in refusal(text)


def sentence(text: str, **args: Any) -> dict[str, Any]:
    return {"sentences": {"en": [{"text": text, "args": args}]}}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (sentence("light in {rom}"), "slot {rom} is not a parameter; did you mean {room}?"),
        (sentence("light on", rom="kitchen"), '.args: There is no parameter "rom"; did you mean room?'),
        (sentence("light on", room="attic"), '.args: room must be one of kitchen, bedroom, not "attic".'),
        (sentence("light (on"), "the template cannot be read"),
        (sentence("light ()"), "the template cannot be read"),
        (sentence("light <area>"), "<rules> are not supported"),
        (sentence("[the] {room}"), "without a word of its own"),
        (sentence("[a]" * 20 + "light"), "over 20000 readings"),
        ({"sentences": {"en": [{"text": ""}]}}, "text: string should have at least 1 character"),
    ],
)
def test_a_bad_sentence_is_refused_with_its_place(changes: dict[str, Any], told: str) -> None:
    message = refusal(manifest(command(**changes)))
    assert "commands[0].sentences.en[0]" in message
    assert told in message


def test_a_required_parameter_must_be_in_every_reading() -> None:
    parameters = {"type": "object", "properties": {"room": ROOM}, "required": ["room"]}
    assert "required parameter room is neither" in refusal(manifest(command(parameters=parameters)))
    good = [{"text": "light in {room}"}, {"text": "cook", "args": {"room": "kitchen"}}, {"text": "lamp (in|at) {room}"}]
    parse_manifest(manifest(command(parameters=parameters, sentences={"en": good})))


def test_lists_and_yes_or_no_cannot_be_slots() -> None:
    parameters = {"type": "object", "properties": {"all": {"type": "boolean"}}}
    changes = {"parameters": parameters, "examples": [], **sentence("lights {all}")}
    assert "slot {all} is a boolean, which cannot be spoken" in refusal(manifest(command(**changes)))


def test_an_example_must_be_a_valid_call() -> None:
    message = refusal(manifest(command(examples=[{"text": "x", "args": {"room": "attic"}}])))
    assert "commands[0].examples[0].args: room must be one of" in message


def test_all_problems_are_told_at_once() -> None:
    bad = command(name="light.off", **sentence("off {rom}"), examples=[{"text": "x", "args": {"room": 1}}])
    message = refusal(manifest(command(risk="high"), bad, version=5))
    assert [line.partition(":")[0] for line in message.splitlines()] == [
        "The manifest is refused",
        "version",
        "commands[0].risk",
        "commands[1].sentences.en[0]",
        "commands[1].examples[0].args",
    ]


def test_a_flood_of_problems_is_cut() -> None:
    commands = [command(name=f"light.on{index}", risk="high") for index in range(100)]
    assert refusal(manifest(*commands)).endswith("\nand 80 more")


def test_what_a_template_refers_to() -> None:
    template = parse_template("(dim|set) [{room}] [the] light[s] to ({percent}|{level})")
    assert template.slots == ("room", "percent", "level")
    assert template.certain_slots == frozenset()
    assert template.readings == 2 * 2 * 2 * 2 * 2
    assert parse_template("(a {x} {y}|b {y})").certain_slots == {"y"}


@given(st.text(alphabet="ab {}[]()|<>:;.\\厨", max_size=40))
def test_any_template_is_read_or_refused(text: str) -> None:
    try:
        assert parse_template(text).readings >= 1
    except InvalidArguments as refused:
        assert refused.message


scraps = st.sampled_from(
    ['"name"', '"light"', "{", "}", "[", "]", ":", ",", '"commands"', "1", "null", '"\\ud800"', " "]
)


@given(st.text(max_size=50) | st.lists(scraps, max_size=20).map("".join))
def test_any_text_is_a_manifest_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_manifest(text), Capability)
    except InvalidArguments as refused:
        assert refused.message
