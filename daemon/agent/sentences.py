"""L1: the sentence templates that commands declare, tried on every turn before any model.

Templates are in the Home Assistant sentence language, matched by ``hassil``. One matcher serves one language;
each command's templates are parsed once, so that a newly registered app costs only its own templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
_READ = (-10_000, 100_000)
"""Every number slot reads these, whatever its bounds: what is out of bounds is refused by name, not misunderstood."""
_ALL_SPELLED = (-100, 100)
_SPELLED = (-100, 1000)
"""Beyond ``_ALL_SPELLED`` only the tens are understood in words; all numbers are in digits. 3 kB per number."""
_MAX_WISHES = 4


class _SpokenRange(RangeSlotList):
    """A range of whole numbers, of which those that people say as words are spelled out."""

    def get_numbers(self) -> Iterator[int]:
        low, high = _ALL_SPELLED
        return (n for n in range(_SPELLED[0], _SPELLED[1] + 1) if low <= n <= high or n % 10 == 0)


@dataclass(frozen=True)
class _Match:
    """How good a match is: more literal words, then fewer open (wildcard) words, then the earlier command."""

    call: Call
    literal: int
    open_chars: int


class SentenceMatcher:
    """Finds the calls that a sentence in one language means by the commands' own templates."""

    def __init__(self, language: Language, commands: Iterable[Command] = ()) -> None:
        self._language = language
        self._compiled: dict[str, tuple[Command, Intent]] = {}
        self._intents = Intents(language, {})
        if commands:
            self.update(commands)

    def update(self, commands: Iterable[Command]) -> None:
        """Use exactly these commands; those that were there already are not parsed again.

        A new template costs about 1 ms: call it off the event loop, one call at a time. Until it returns, sentences
        are matched as before.
        """
        compiled: dict[str, tuple[Command, Intent]] = {}
        for command in commands:
            if self._language in command.sentences:
                known = self._compiled.get(command.name)
                if known is None or known[0] is not command:
                    known = (command, self._compile(command))
                compiled[command.name] = known
        self._compiled = compiled
        self._intents = self._matchable({name: intent for name, (_, intent) in compiled.items()})

    def match(self, text: str) -> list[Call]:
        """The calls of a normalised sentence, in spoken order; empty when any part of it is not understood."""
        if len(text.encode()) > MAX_WORDS_BYTES:
            return []
        if call := self._match_one(text):
            return [call]
        parts = split_wishes(text, self._language)
        if not 1 < len(parts) <= _MAX_WISHES:
            return []
        calls: list[Call] = []
        for part in parts:
            call = self._match_one(part)
            if call is None:
                return []
            calls.append(call)
        return calls

    def _match_one(self, text: str) -> Call | None:
        best: _Match | None = None
        for result in recognize_all(text, self._intents, language=self._language):
            found = _to_match(result)
            if best is None or (found.literal, -found.open_chars) > (best.literal, -best.open_chars):
                best = found
        return best.call if best else None

    def _matchable(self, intents: dict[str, Intent]) -> Intents:
        return Intents(
            language=self._language,
            intents=intents,
            skip_words=_SKIP_WORDS[self._language],
            settings=IntentsSettings(ignore_whitespace=self._language == "zh"),
        )

    def _compile(self, command: Command) -> Intent:
        slots = dict(_slot_lists(command.parameters))
        wildcards = {name for name, slot in slots.items() if isinstance(slot, WildcardSlotList)}
        blocks: dict[str, tuple[dict[str, Any], list[str]]] = {}
        for sentence in command.sentences[self._language]:
            blocks.setdefault(repr(sentence.args), (sentence.args, []))[1].append(sentence.text)
        data = [
            IntentData(texts, slot_lists=slots, wildcard_list_names=wildcards, metadata={"args": args})
            for args, texts in blocks.values()
        ]
        # hassil parses a template, and spells out a range of numbers, at the first use: use them now.
        numbers = [
            IntentData([f"{{{name}}}"], slot_lists={name: slot})
            for name, slot in slots.items()
            if isinstance(slot, RangeSlotList)
        ]
        probe = self._matchable({"probe": Intent("probe", data + numbers)})
        list(recognize_all("-", probe, language=self._language))
        return Intent(command.name, data)


def _to_match(result: RecognizeResult) -> _Match:
    metadata = result.intent_metadata or result.intent_data.metadata or {}
    args: dict[str, Any] = dict(metadata.get("args", {}))
    open_chars = 0
    for entity in result.entities_list:
        args[entity.name] = entity.value
        if entity.is_wildcard:
            open_chars += len(entity.text)
    return _Match(Call(method=result.intent.name, args=args), result.text_chunks_matched, open_chars)


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
            # One range for all, so that its table of words is made and kept once per language.
            yield name, _SpokenRange(name=name, type=RangeType.NUMBER, start=_READ[0], stop=_READ[1])
        elif schema.get("type") == "string":
            yield name, WildcardSlotList(name=name)
