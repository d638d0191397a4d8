"""Numbers as people say them, each with its unit and place: "thirty percent", "an hour and a half", 三刻钟, 四成."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ....capabilities.command import Language
from .quantities_en import find as find_en
from .quantities_zh import find as find_zh
from .quantity import SECONDS, Quantity

_EXTREMES: dict[Language, tuple[tuple[re.Pattern[str], float], ...]] = {
    "en": (
        (
            re.compile(
                r"\b(?:max(?:imum)?|full(?:y|est)?|all the way up|to the top|loudest|brightest|highest"
                r"|as (?:loud|bright|high|strong|hard|strongly|loudly|brightly) as)\b"
            ),
            1.0,
        ),
        (
            re.compile(
                r"\b(?:min(?:imum)?|all the way down|mute[ds]?|inaudible|silence (?:the|it|your)|lowest|dimmest"
                r"|darkest|quietest|no (?:sound|noise|volume)|(?:sound|volume|audio|speakers?)(?: \w+)? off|to nothing"
                r"|off the (?:sound|volume|audio|speakers?)|as (?:quiet|dim|dark|low|soft) as)\b"
            ),
            0.0,
        ),
    ),
    "zh": (
        (re.compile(r"最大|最响|最亮|最高|最强|到顶|拉满|全开|开满|满格|爆满"), 1.0),
        (
            re.compile(
                r"静音|最小|最低|最暗|最弱|消音|没有?声音|关(?:掉|了|闭)?(?:声音|音量)|(?:声音|音量)(?:全|都)?关|不出声|别出声|不要(?:有)?声音|一点声音|无声"
            ),
            0.0,
        ),
    ),
}


def find_quantities(text: str, language: Language) -> list[Quantity]:
    """All numbers of a sentence in spoken order; the parts of a duration are added up."""
    find = find_zh if language == "zh" else find_en
    return list(_durations_added(find(text), text))


def find_extremes(text: str, language: Language) -> list[Quantity]:
    """Words for the most and the least of a level, as shares 1 and 0."""
    low = text.casefold()
    return [
        Quantity(share, "share", match.start(), match.end())
        for pattern, share in _EXTREMES[language]
        for match in pattern.finditer(low)
    ]


def _durations_added(quantities: Iterable[Quantity], text: str) -> Iterable[Quantity]:
    """ "an hour and twenty minutes": neighbours of falling unit with nothing but "and" between them are one."""
    held: Quantity | None = None
    for quantity in quantities:
        if held is None:
            held = quantity
            continue
        between = text[held.end : quantity.start].strip(" ,").casefold()
        smaller = SECONDS.get(quantity.unit, 0)
        if between in ("", "and", "零", "又", "加") and 0 < smaller < SECONDS.get(held.unit, 0):
            value = held.value + quantity.value * smaller / SECONDS[held.unit]
            held = replace(held, value=value, end=quantity.end)
        else:
            yield held
            held = quantity
    if held is not None:
        yield held
