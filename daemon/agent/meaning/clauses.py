"""The parts of a sentence that may each be a wish, as places in the text, so that neighbours can be read together."""

from __future__ import annotations

import re

from ....capabilities.command import Language

MAX_CLAUSES = 6
_BREAKS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"(?:\s*[,;:]|[.!?](?=\s))?\s+(?:and then|and after that|and also|after that|and|then|plus|but first)\b\s*"
        r"|\s*[,;:.!?]+\s+",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"\s*[，,；;。、！？!?：]+\s*(?:然后|并且|而且|顺便|接着|再|还有|同时|另外|之后|最后)?"
        r"|(?<=.)(?:然后|并且|而且|顺便|再|还有|同时|另外|接着)(?=.)|(?<=[了吧下])\s+(?=\S)"
    ),
}


def split_clauses(text: str, language: Language) -> list[tuple[int, int]]:
    """Start and end of each clause; the whole text where there is one, or more than ``MAX_CLAUSES``."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _BREAKS[language].finditer(text):
        if text[start : match.start()].strip():
            spans.append((start, match.start()))
            start = match.end()
    if text[start:].strip():
        spans.append((start, len(text)))
    return spans if 1 < len(spans) <= MAX_CLAUSES else [(0, len(text))]
