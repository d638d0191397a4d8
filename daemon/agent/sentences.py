"""L1: the sentence templates that commands declare, tried on every turn before any model.

Templates are in the Home Assistant sentence language, matched by ``hassil``. One matcher serves a language;
each command's templates are parsed once, so that a newly registered app costs only its own templates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hassil.expression import TextChunk
from hassil.intents import (
    Intent,
    IntentData,
    Intents,
    IntentsSettings,
    RangeSlotList,
    RangeType,
    SlotList,
    TextSlotList,
    TextSlotValue,
    WildcardSlotList,
)
from hassil.recognize import RecognizeResult, recognize_all
from hassil.util import normalize_text

from ...capabilities.command import Call, Command, Language
from .text import MAX_WORDS_BYTES, split_wishes

_SKIP_WORDS: dict[Language, list[str]] = {
    "en": [
        *("please", "could you please", "can you please", "could you", "can you", "would you", "will you"),
        *("for me", "hey", "okay", "ok", "now", "i want you to", "i would like you to", "thanks", "thank you"),
    ],
    "zh": ["请你", "请", "帮我", "麻烦你", "麻烦", "给我", "你能", "可以", "吧", "吗", "谢谢", "现在", "帮忙"],
}
_UNBOUNDED = (0, 1000)
"""The numbers an integer slot reads when its parameter declares no bounds."""
_MAX_SPELLED = 1000
"""A wider range reads digits only: the table of its number words would take over 50 ms to build."""
_MAX_WISHES = 4


@dataclass(frozen=True)
class _Match:
    """How good a match is: more literal words, then fewer open (wildcard) words, then the earlier command."""

    call: Call
    literal: int
    open_chars: int


class SentenceMatcher:
    """Finds the calls that a sentence means by the commands' own templates."""

    def __init__(self, commands: Iterable[Command] = (), languages: Iterable[Language] = ("en",)) -> None:
        """``languages`` are made ready at once; a further one costs up to 0.1 s and 2 MB at its first sentence."""
        self._ready: set[Language] = set(languages)
        self._compiled: dict[str, tuple[Command, dict[Language, Intent]]] = {}
        self._intents: dict[Language, Intents] = {}
        self.update(commands)

    def update(self, commands: Iterable[Command]) -> None:
        """Use exactly these commands; those that were there already are not parsed again."""
        compiled: dict[str, tuple[Command, dict[Language, Intent]]] = {}
        for command in commands:
            known = self._compiled.get(command.name)
            compiled[command.name] = (
                known if known and known[0] is command else (command, _compile(command, self._ready))
            )
        self._compiled = compiled
        self._intents = {
            language: Intents(
                language=language,
                intents={name: intents[language] for name, (_, intents) in compiled.items() if language in intents},
                skip_words=skip_words,
                settings=IntentsSettings(ignore_whitespace=language == "zh"),
            )
            for language, skip_words in _SKIP_WORDS.items()
        }

    def match(self, text: str, language: Language) -> list[Call]:
        """The calls of a normalised sentence, in spoken order; empty when any part of it is not understood."""
        if len(text.encode()) > MAX_WORDS_BYTES:
            return []
        if call := self._match_one(text, language):
            return [call]
        parts = split_wishes(text, language)
        if not 1 < len(parts) <= _MAX_WISHES:
            return []
        calls: list[Call] = []
        for part in parts:
            call = self._match_one(part, language)
            if call is None:
                return []
            calls.append(call)
        return calls

    def _match_one(self, text: str, language: Language) -> Call | None:
        best: _Match | None = None
        for result in recognize_all(text, self._intents[language], language=language):
            found = _to_match(result)
            if best is None or (found.literal, -found.open_chars) > (best.literal, -best.open_chars):
                best = found
        return best.call if best else None


def _to_match(result: RecognizeResult) -> _Match:
    metadata = result.intent_metadata or result.intent_data.metadata or {}
    args: dict[str, Any] = dict(metadata.get("args", {}))
    open_chars = 0
    for entity in result.entities_list:
        args[entity.name] = entity.value
        if entity.is_wildcard:
            open_chars += len(entity.text)
    return _Match(Call(method=result.intent.name, args=args), result.text_chunks_matched, open_chars)


def _compile(command: Command, ready: Collection[Language]) -> dict[Language, Intent]:
    slots = dict(_slot_lists(command.parameters))
    wildcards = {name for name, slot in slots.items() if isinstance(slot, WildcardSlotList)}
    compiled: dict[Language, Intent] = {}
    for language, sentences in command.sentences.items():
        blocks: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for sentence in sentences:
            blocks.setdefault(repr(sentence.args), (sentence.args, []))[1].append(sentence.text)
        compiled[language] = Intent(
            command.name,
            [
                IntentData(texts, slot_lists=slots, wildcard_list_names=wildcards, metadata={"args": args})
                for args, texts in blocks.values()
            ],
        )
        if language in ready:
            _build_number_words(slots, language)
    return compiled


def _build_number_words(slots: dict[str, SlotList], language: Language) -> None:
    """hassil builds a range's table of number words at its first use: do it now, so that no person waits."""
    ranges = {name: slot for name, slot in slots.items() if isinstance(slot, RangeSlotList)}
    for name, slot in ranges.items():
        probe = Intents(language, {name: Intent(name, [IntentData([f"{{{name}}}"], slot_lists={name: slot})])})
        list(recognize_all("-", probe, language=language))


def _slot_lists(parameters: dict[str, Any]) -> Iterator[tuple[str, SlotList]]:
    for name, schema in parameters.get("properties", {}).items():
        if "enum" in schema:
            spoken = schema.get("x-names", {})
            values = [
                TextSlotValue(text_in=TextChunk(normalize_text(word)), value_out=value)
                for value in schema["enum"]
                for word in dict.fromkeys([str(value), str(value).replace("_", " "), *spoken.get(str(value), [])])
            ]
            yield name, TextSlotList(name=name, values=values)
        elif schema.get("type") in {"integer", "number"}:
            low = math.ceil(schema.get("minimum", schema.get("exclusiveMinimum", _UNBOUNDED[0])))
            high = math.floor(schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + _UNBOUNDED[1])))
            spelled = high - low <= _MAX_SPELLED
            yield name, RangeSlotList(name=name, type=RangeType.NUMBER, start=low, stop=max(low, high), words=spelled)
        elif schema.get("type") == "string":
            yield name, WildcardSlotList(name=name)
