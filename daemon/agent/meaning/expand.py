"""What a sentence template can read like: for the words around a slot, and for more examples of a command."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import islice, product

from hassil.expression import Alternative, Expression, Group, ListReference, TextChunk
from hassil.parse_expression import parse_sentence

_MOST = 2000


def readings(template: str, slot: Callable[[str], str], limit: int = _MOST) -> list[str]:
    """Up to ``limit`` readings of a template, the same ones each time; ``slot(name)`` gives what stands for a slot."""
    found = [" ".join(text.split()) for text in islice(_read(parse_sentence(template).expression, slot), _MOST)]
    unique = list(dict.fromkeys(found))
    if len(unique) <= limit:
        return unique
    return sorted(unique, key=lambda text: zlib.crc32(text.encode()))[:limit]  # a draw that never changes


def _read(expression: Expression, slot: Callable[[str], str]) -> Iterator[str]:
    if isinstance(expression, TextChunk):
        yield expression.original_text
    elif isinstance(expression, ListReference):
        yield slot(expression.list_name)
    elif isinstance(expression, Alternative):
        for item in expression.items:
            yield from _read(item, slot)
    elif isinstance(expression, Group):
        parts = [list(islice(_read(item, slot), _MOST)) for item in expression.items]
        for chosen in product(*parts):
            yield "".join(chosen)
