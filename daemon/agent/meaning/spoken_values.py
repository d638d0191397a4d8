"""Which of an enum's values a sentence names, by the values themselves and their ``x-names``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ....capabilities.command import Language

_HAN = re.compile(r"[㐀-鿿]")
_WILDCARDS = frozenset({"all", "any", "every", "everything", "everywhere"})
_BETWEEN = re.compile(
    r"\W*(?:and|the|in|also|both|lights?|lamps?|和|跟|与|还有|以及|的|灯|、)?\W*(?:the)?\W*", re.IGNORECASE
)
_DENIED = re.compile(r"(?:\bnot (?:the |in the |in |on )?|不是|不要)$", re.IGNORECASE)
_AIMED = re.compile(r"(?:\b(?:to|into|in)(?: the| a)? |[成到为])$", re.IGNORECASE)


@dataclass(frozen=True)
class _Named:
    value: Any
    start: int
    end: int


def named_values(text: str, schema: Mapping[str, Any], language: Language) -> list[Any]:
    """The values that are meant, in spoken order: usually one; several only where "and" joins them.

    A value for everything ("all") gives way to a narrower one; "not the kitchen" is no kitchen; of two rivals the
    one after "to" wins, else the later one.
    """
    names = {str(value): tuple(schema.get("x-names", {}).get(str(value), ())) for value in schema["enum"]}
    by_text = {str(value): value for value in schema["enum"]}
    found = [
        _Named(by_text[value], start, end) for value, start, end in _occurrences(text, tuple(names.items()), language)
    ]
    found = [one for one in found if not _DENIED.search(text[: one.start])] or found
    found = [one for one in found if str(one.value) not in _WILDCARDS] or found
    if len({str(one.value) for one in found}) < 2:
        return [one.value for one in found[:1]]
    gaps = [text[first.end : second.start] for first, second in pairwise(found)]
    if all(_BETWEEN.fullmatch(gap) and gap.strip() for gap in gaps):
        return list(dict.fromkeys(one.value for one in found))
    aimed = [one for one in found if _AIMED.search(text[: one.start])]
    return [(aimed or found)[-1].value]


def _occurrences(
    text: str, names: tuple[tuple[str, tuple[str, ...]], ...], language: Language
) -> Iterator[tuple[str, int, int]]:
    pattern, values = _compiled(names)
    for match in pattern.finditer(text.casefold()):
        yield values[int(str(match.lastgroup)[1:])], match.start(), match.end()


@lru_cache(maxsize=64)
def _compiled(names: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[re.Pattern[str], list[str]]:
    """One pattern for all names, longest first; the group's number tells the value."""
    words = [(word.casefold(), value) for value, more in names for word in (value, value.replace("_", " "), *more)]
    words = sorted(dict.fromkeys(words), key=lambda item: -len(item[0]))
    return re.compile("|".join(f"(?P<v{number}>{_as_pattern(word)})" for number, (word, _) in enumerate(words))), [
        value for _, value in words
    ]


def _as_pattern(word: str) -> str:
    """A name as it may be written: "bed room" is a bedroom, "kitchen's" a kitchen; Chinese has no word breaks."""
    if _HAN.search(word):
        return re.escape(word)
    letters = [re.escape(char) for char in word if not char.isspace()]
    body = r"[\s-]?".join(letters) if len(letters) > 6 else r"\s+".join(map(re.escape, word.split()))
    return rf"\b{body}(?:'s|s)?\b"
