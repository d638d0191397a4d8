"""The understanding suite: the files' form, the scoring, and a whole run over the shipped data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.__main__ import main
from famulus.bench.declared import DATA, load_capability
from famulus.bench.scoring import Item, Scorer, load_items
from famulus.capabilities.command import Call, Risk
from famulus.core.errors import FamulusError

COMMANDS = [
    {"name": "light.on", "description": "Turn a light on",
     "params": {"room": {"type": "string", "enum": ["kitchen", "all"], "default": "all"}}},
    {"name": "volume.set", "description": "Set the volume in percent",
     "params": {"percent": {"type": "integer", "min": 0, "max": 100}}, "required": ["percent"]},
    {"name": "note.add", "description": "Note something", "params": {"text": {"type": "string"}}, "required": ["text"]},
    {"name": "text_reply", "description": "Answer in words", "params": {"text": {"type": "string"}}},
]  # fmt: skip
PHRASES = {
    "light.on": {
        "x-names": {"room": {"kitchen": ["厨房"]}},
        "sentences": {"en": ["turn on the [{room}] light", {"text": "let there be light", "args": {"room": "all"}}]},
        "examples": {"en": ["some light in the kitchen"], "zh": ["厨房开灯"]},
    },
    "volume.set": {"risk": "notable", "examples": {"en": ["volume at thirty"]}},
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    items = [
        {"id": "1", "lang": "en", "kind": "direct", "text": "Turn on the kitchen light.",
         "calls": [{"method": "light.on", "args": {"room": "kitchen"}}]},
        {"id": "2", "lang": "en", "kind": "chat", "text": "How tall is Mount Everest?",
         "calls": [{"method": "text_reply", "args": {"text": ""}}]},
    ]  # fmt: skip
    paths = {}
    for name, content in {"commands": COMMANDS, "phrases": PHRASES, "data": items}.items():
        paths[name] = tmp_path / f"{name}.json"
        paths[name].write_text(json.dumps(content), "utf-8")
    return paths


def item(*right: list[tuple[str, dict[str, Any]]]) -> Item:
    calls = tuple(tuple(Call(method=method, args=args) for method, args in one) for one in right)
    return Item("x", "en", "direct", "text", calls)


def test_commands_are_declared_with_their_phrases(files: dict[str, Path]) -> None:
    capability = load_capability(files["commands"], files["phrases"])
    light, volume, note = capability.commands  # text_reply is no command: it is no call
    assert light.parameters["properties"]["room"]["x-names"] == {"kitchen": ["厨房"]}
    assert [(example.language, example.args) for example in light.examples] == [
        ("en", {"room": "kitchen"}),
        ("zh", {"room": "kitchen"}),
    ]
    assert volume.parameters["properties"]["percent"] == {"type": "integer", "minimum": 0, "maximum": 100}
    assert (volume.risk, volume.examples[0].args) == (Risk.NOTABLE, {"percent": 30})
    assert note.examples == ()


def test_an_example_whose_arguments_cannot_be_read_is_named(files: dict[str, Path]) -> None:
    files["phrases"].write_text(json.dumps({"volume.set": {"examples": {"en": ["louder"]}}}))
    with pytest.raises(FamulusError, match=r"volume.set: examples\[0\].*percent is missing"):
        load_capability(files["commands"], files["phrases"])


@pytest.mark.parametrize("content", ["", "[1]", "{}", '[{"id": "1"}]', '[{"name": 5}]'])
def test_a_file_of_another_form_is_refused_in_words(files: dict[str, Path], content: str) -> None:
    for key in ("commands", "data"):
        files[key].write_text(content)
    if content == "{}":
        assert load_items(files["data"]) == []
        return
    with pytest.raises(FamulusError):
        load_items(files["data"])
    with pytest.raises(FamulusError):
        load_capability(files["commands"], files["phrases"])


@pytest.mark.parametrize(
    ("right", "got", "commands", "everything"),
    [
        ([("light.on", {})], [("light.on", {"room": "all"})], True, True),
        ([("light.on", {"room": "kitchen"})], [("light.on", {})], True, False),
        ([("note.add", {"text": "Buy some milk!"})], [("note.add", {"text": "to buy some milk"})], True, True),
        ([("note.add", {"text": "the bins"})], [("note.add", {"text": "Bins."})], True, True),
        ([("note.add", {"text": "bins"})], [("note.add", {"text": "tins"})], True, False),
        ([("text_reply", {"text": "hello"})], [], True, True),
        ([("light.on", {})], [], False, False),
        ([("light.on", {}), ("text_reply", {"text": ""})], [("light.on", {})], False, False),
        ([("volume.set", {"percent": 5})], [("volume.set", {"percent": 500})], True, False),
        (
            [("light.on", {}), ("volume.set", {"percent": 5})],
            [("volume.set", {"percent": 5}), ("light.on", {})],
            False,
            False,
        ),
    ],
)
def test_scoring(files: dict[str, Path], right: list[Any], got: list[Any], commands: bool, everything: bool) -> None:
    scorer = Scorer(load_capability(files["commands"], files["phrases"]).commands)
    calls = [Call(method=method, args=args) for method, args in got]
    assert scorer.methods_right(item(right), calls) is commands
    assert scorer.right(item(right), calls) is everything
    assert scorer.right(item([("light.on", {"room": "kitchen"})], right), calls) is everything


def test_the_shipped_data_fit_their_form_and_the_held_out_sentences_are_in_no_phrase() -> None:
    capability = load_capability(DATA / "commands.json", DATA / "phrases.json")
    assert {command.name for command in capability.commands if command.risk is Risk.DANGEROUS} == {"system.reboot"}
    said = {_plain(example.text) for command in capability.commands for example in command.examples}
    for name in ("understanding-dev.json", "heldout.json"):
        items = load_items(DATA / name)
        assert len({one.id for one in items}) == len(items) > 100
        assert not said & {_plain(one.text) for one in items}


def _plain(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


@pytest.mark.models
def test_a_run_counts_by_kind_and_stage(
    files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    options = [part for key, path in files.items() for part in (f"--{key}", str(path))]
    assert main(["understanding", *options, "--json", str(out)]) == 0
    results = json.loads(out.read_text("utf-8"))["results"]
    assert results["groups"]["all"] == {"n": 2, "commands": 1.0, "commands_and_arguments": 1.0}
    assert results["groups"]["restraint"]["n"] == 1
    assert {stage: group["n"] for stage, group in results["stages"].items()} == {"sentences": 1, "semantic": 1}
    assert results["wrong_dangerous_calls"] == []
    assert "Wrong dangerous calls: 0." in capsys.readouterr().out


def test_without_the_encoder_only_sentences_count(files: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    options = [part for key, path in files.items() for part in (f"--{key}", str(path))]
    assert main(["understanding", *options, "--sentences-only", "--json", str(out)]) == 0
    stages = json.loads(out.read_text("utf-8"))["results"]["stages"]
    assert {stage: group["n"] for stage, group in stages.items()} == {"sentences": 1, "nobody": 1}


def test_a_model_that_is_no_language_model_is_refused(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [part for key, path in files.items() for part in (f"--{key}", str(path))]
    assert main(["understanding", *options, "--sentences-only", "--model", "/nowhere/x.gguf"]) == 1
    assert "x.gguf is missing" in capsys.readouterr().err
