"""Whether a sentence keeps to the words that a command's own phrases use: what a command that could do harm needs."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ....capabilities.command import Command, Language
from .expand import readings

_COMMON_TEXT = """
a again an and are at away back be but can completely could do does down entire for from get give go have i if
immediately in into is it its just like make me my need no not now of off on once or out over please quickly really
right should so some that the them then there these thing this time to up us want was we what whole will with would
you your yourself
"""
_COMMON = frozenset(_COMMON_TEXT.split())
_WORD = re.compile(r"[a-z0-9']+")
_HAN = re.compile(r"[㐀-鿿]")
_COMMON_HAN = frozenset("请你我您的了吧一下把给帮个要想就让再在有是不太啊呀它这那点快现需")


def is_in_declared_words(text: str, command: Command, language: Language) -> bool:
    """A key word of the command's sentences is said, and hardly a word that no phrase of the command has.

    So "restart the washing machine" is not "restart the machine", nor is a question about the word "reboot".
    """
    keys, known = _words(
        tuple(sentence.text for sentence in command.sentences.get(language, ())),
        tuple(example.text for example in command.examples if example.language == language),
        language,
    )
    said = _content(text, language)
    if language == "zh":
        pairs = set(_pairs(said))
        return bool(pairs & keys) and sum(char in known for char in said) >= 0.9 * len(said)
    return bool(set(said) & keys) and all(word in known for word in said)


@lru_cache(maxsize=32)
def _words(
    sentences: tuple[str, ...], examples: tuple[str, ...], language: Language
) -> tuple[frozenset[str], frozenset[str]]:
    declared = [reading for sentence in sentences for reading in readings(sentence, lambda _: "", 200)]
    own = [word for text in declared for word in _content(text, language)]
    known = frozenset(own) | frozenset(word for text in examples for word in _content(text, language))
    if language == "zh":
        pairs = (pair for text in declared for pair in _pairs(_content(text, language)))
        return frozenset(pairs), known
    return frozenset(own), known


def _pairs(chars: list[str]) -> list[str]:
    return [a + b for a, b in pairwise(chars)]


def _content(text: str, language: Language) -> list[str]:
    if language == "zh":
        return [char for char in _HAN.findall(text) if char not in _COMMON_HAN]
    return [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]
