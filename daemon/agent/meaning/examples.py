"""What the classifier learns from: the commands' declared phrases, and a corpus of what is no command."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from ....capabilities.command import Command, Language
from ..text import normalise
from .expand import readings

NONE = "none of these"
_NONE_CORPUS = Path(__file__).with_name("none.toml")
_READINGS = 2
"""Readings of each template that count as examples: more would drown what people really say."""
_PUNCTUATION = re.compile(r"[^\w\s'%°]+")
_WORDS = {"integer": {"en": "thirty", "zh": "三十"}, "number": {"en": "thirty", "zh": "三十"}}


@dataclass(frozen=True)
class TrainingSet:
    """``labels[i]`` is the command's name, or ``NONE``, that ``texts[i]`` stands for; ``key`` names the content."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def key(self) -> str:
        content = "\n".join(f"{label}\t{text}" for label, text in zip(self.labels, self.texts, strict=True))
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def as_classified(text: str) -> str:
    """The form in which sentences are embedded: no case, no punctuation."""
    return " ".join(_PUNCTUATION.sub(" ", text.casefold()).split())


def training_set(commands: Sequence[Command]) -> TrainingSet:
    """Description, examples and a few readings of each template of the commands, and the corpus of ``NONE``.

    Reads a file and takes tens of milliseconds: call it off the event loop.
    """
    pairs: dict[tuple[str, str], None] = {}
    for command in commands:
        pairs[as_classified(command.description), command.name] = None
        for example in command.examples:
            pairs[as_classified(normalise(example.text, example.language)), command.name] = None
        for language, sentences in command.sentences.items():
            filler = partial(_filler, command, language)
            for reading in (reading for s in sentences for reading in readings(s.text, filler, _READINGS)):
                pairs[as_classified(normalise(reading, language)), command.name] = None
    declared = {text for text, _ in pairs}
    for text in _none_corpus():
        if text not in declared:  # an app's own words are never "none of these"
            pairs[text, NONE] = None
    return TrainingSet(tuple(text for text, _ in pairs), tuple(label for _, label in pairs))


def _none_corpus() -> list[str]:
    with _NONE_CORPUS.open("rb") as file:
        corpus: dict[str, Any] = tomllib.load(file)
    patterns: dict[str, list[tuple[int, str]]] = corpus.pop("patterns")
    sentences = [(language, text) for language, groups in corpus.items() for texts in groups.values() for text in texts]
    sentences += [
        (language, reading)
        for language, templates in patterns.items()
        for count, template in templates
        for reading in readings(template, lambda _: "", count)
    ]
    return [as_classified(normalise(text, cast(Language, language))) for language, text in sentences]


def _filler(command: Command, language: Language, parameter: str) -> str:
    """A value for a slot in an example: the middle one of an enum, by a name in that language."""
    schema: dict[str, Any] = command.parameters.get("properties", {}).get(parameter, {})
    if "enum" in schema:
        value = str(schema["enum"][len(schema["enum"]) // 2])
        spoken = [value, *schema.get("x-names", {}).get(value, [])]
        return next((word for word in spoken if word.isascii() == (language == "en")), value)
    if words := _WORDS.get(schema.get("type", "")):
        return words[language]
    example = next((e for e in command.examples if e.language == language and e.args.get(parameter)), None)
    return str(example.args[parameter]) if example else ""
