"""What a sentence template refers to, read with the parser that later matches it."""

from __future__ import annotations

from dataclasses import dataclass

from hassil.expression import Alternative, Expression, Group, ListReference, TextChunk
from hassil.parse_expression import parse_sentence
from hassil.parser import ParseError

from ..core.errors import InvalidArguments

MAX_READINGS = 20_000
"""A template of more readings could hold up the matcher for seconds."""

_FORBIDDEN = {"<": "<rules>", ";": "permutations (;)", ":": "renamed slots (:)", "..": "inline ranges (..)"}


@dataclass(frozen=True)
class Template:
    """A template's slots in order, those that every reading fills, and how many readings it has."""

    slots: tuple[str, ...]
    certain_slots: frozenset[str]
    readings: int
    fewest_letters: int
    """Letters of its own in the reading that has the fewest."""


def parse_template(text: str) -> Template:
    """Read ``(a|b)``, ``[optional]`` and ``{slot}``; raises ``InvalidArguments`` for anything else."""
    for sign, name in _FORBIDDEN.items():
        if sign in text:
            raise InvalidArguments(f"{name} are not supported; use (a|b), [optional] and {{slot}}")
    try:
        template = _read(parse_sentence(text).expression)
    except (ParseError, AssertionError):  # hassil asserts that brackets are not empty
        raise InvalidArguments("the template cannot be read; close every bracket and leave none empty") from None
    except RecursionError:
        raise InvalidArguments("the template is nested too deeply") from None
    if template.readings > MAX_READINGS:
        raise InvalidArguments(f"the template has over {MAX_READINGS} readings; split it into several sentences")
    if template.fewest_letters == 0:
        raise InvalidArguments("the template has a reading without a word of its own, which would match anything")
    return template


def _read(expression: Expression) -> Template:
    if isinstance(expression, TextChunk):
        return Template((), frozenset(), 1, sum(char.isalnum() for char in expression.text))
    if isinstance(expression, ListReference):
        name = expression.list_name
        return Template((name,), frozenset([name]), 1, 0)
    assert isinstance(expression, Group)
    parts = [_read(item) for item in expression.items] or [Template((), frozenset(), 1, 0)]
    slots = tuple(dict.fromkeys(slot for part in parts for slot in part.slots))
    if isinstance(expression, Alternative):
        certain = frozenset.intersection(*(part.certain_slots for part in parts))
        readings = sum(part.readings for part in parts)
        return Template(slots, certain, readings, min(part.fewest_letters for part in parts))
    certain = frozenset[str]().union(*(part.certain_slots for part in parts))
    readings = 1
    for part in parts:
        readings = min(readings * part.readings, MAX_READINGS + 1)
    return Template(slots, certain, readings, sum(part.fewest_letters for part in parts))
