"""Free words inside a sentence: what follows the words that a command's own sentences put before them.

"remind me to {text}" and the example "put on mozart" (query = mozart) teach what stands before and after; nothing
about reminders or music is written here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ....capabilities.command import Command, Language
from ..text import normalise
from .expand import readings

_MARK = "\x00"
_LONGEST_WORDS = 6
_LONGEST_HAN = 8
_THAT = re.compile(r"^that (?=(?:i|we|you|he|she|they|it|the|my|our|there)\b)", re.IGNORECASE)
_LAST_BIT = re.compile(r"[,，][^,，]{0,12}$")  # ", so please" before the words that follow
_TAIL: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"[\s,.!?;:]+(?:please|thanks|thank you|dear|darling|honey|mate|now|will you"
        r"|would you|could you|ok|okay)?$",
        re.IGNORECASE,
    ),
    "zh": re.compile(r"[\s，,。！？!?；：:]*(?:吧|谢谢|好吗|可以吗|行吗|一下吧|哈|啊|呀|哦|了吧)?[\s，,。！？!?]*$"),
}


@dataclass(frozen=True)
class Frames:
    """``around`` is what stands before and after the words; ``idle`` holds sentences that need none."""

    around: tuple[tuple[str, str], ...]
    idle: str


def free_words(text: str, command: Command, parameter: str, language: Language) -> str:
    """The words of the parameter, as they were said; ``""`` where the sentence has none."""
    frames = _frames(command, parameter, language)
    low = text.casefold()
    if len(low) != len(text):
        return ""
    # What stands behind the words is often politeness: where no frame fits, its first half will do.
    words = _longest_fit(text, low, frames.around, language) or _longest_fit(
        text, low, tuple((before, "") for before, _ in frames.around), language
    )
    return "" if _is_idle(words, frames.idle, language) else words


def _longest_fit(text: str, low: str, around: tuple[tuple[str, str], ...], language: Language) -> str:
    """What the longest frame that fits holds; of equals the first place in the text."""
    best, rank = "", (0, 0)
    for before, after in around:
        start = _find(low, before, language)
        if start < 0 or (len(before) + len(after), -start) <= rank:
            continue
        words = text[start + len(before) :]
        if after:
            at = words.casefold().find(after)
            if at <= 0:
                continue
            words = _LAST_BIT.sub("", words[:at])
        if words := _trimmed(words, language):
            best, rank = words, (len(before) + len(after), -start)
    return best


def _trimmed(words: str, language: Language) -> str:
    words = words.strip(" \t,，.。!！?？:：;；\"'“”")
    for _ in range(3):
        words = _TAIL[language].sub("", words).strip(" ,，:：")
    return _THAT.sub("", words)


def _find(low: str, words: str, language: Language) -> int:
    """Where the words first stand as whole words, else -1; Chinese has no word breaks."""
    at = low.find(words)
    if language == "zh":
        return at
    while at >= 0:
        end = at + len(words)
        if not (low[at - 1 : at].isalnum() or low[end : end + 1].isalnum()):
            return at
        at = low.find(words, at + 1)
    return at


def _is_idle(words: str, idle: str, language: Language) -> bool:
    """Whether the words only name what the command is about: "play some music"."""
    return _find(idle, words.casefold(), language) >= 0


@lru_cache(maxsize=64)
def _compiled(
    sentences: tuple[str, ...], examples: tuple[tuple[str, str], ...], parameter: str, language: Language
) -> Frames:
    around: dict[tuple[str, str], None] = {}
    idle: list[str] = []
    for sentence in sentences:
        if f"{{{parameter}}}" not in sentence:
            idle += readings(sentence, lambda _: "", 200)
            continue
        for reading in readings(sentence, lambda name: _MARK if name == parameter else "", 200):
            _add(around, reading, language)
    for example, words in examples:
        text = normalise(example, language).casefold()
        if not words:
            idle.append(text)
        elif words.casefold() in text:
            before, _, after = text.partition(words.casefold())
            # Of what follows in an example only the first word is needed: "some blues would …".
            after = after.strip(" ,，")[:2] if language == "zh" else after.strip(" ,").partition(" ")[0]
            _add(around, f"{before}{_MARK}{after}", language)
    return Frames(tuple(around), "\n".join(idle).casefold())


def _frames(command: Command, parameter: str, language: Language) -> Frames:
    sentences = tuple(sentence.text for sentence in command.sentences.get(language, ()))
    examples = tuple(
        (example.text, str(example.args.get(parameter, "")))
        for example in command.examples
        if example.language == language
    )
    return _compiled(sentences, examples, parameter, language)


def _add(around: dict[tuple[str, str], None], reading: str, language: Language) -> None:
    before, _, after = reading.partition(_MARK)
    before, after = before.strip(" ,，:：").casefold(), after.strip(" ,，.。:：").casefold()
    short = len(before) <= _LONGEST_HAN if language == "zh" else len(before.split()) <= _LONGEST_WORDS
    if before and short and _MARK not in after:
        around[before, after] = None
