"""The arguments of one wish, read by rules from its words and the command's schema: no model, nothing invented.

A value out of its parameter's range is a fault, never clamped: "heat it to 80 degrees" must not heat to 35.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ....capabilities.command import Call, Command, Language
from .disfluency import Fluent
from .free_text import free_words
from .quantities import find_extremes, find_quantities
from .quantity import SECONDS, Quantity
from .spoken_values import named_values

Fault = Literal["", "missing", "out_of_range"]
Dimension = Literal["", "percent", "second", "minute", "hour", "degree", "fahrenheit"]

_DIMENSIONS: tuple[tuple[Dimension, re.Pattern[str]], ...] = (
    ("percent", re.compile(r"percent|per cent|percentage|%|百分")),
    ("second", re.compile(r"\bseconds?\b|秒")),
    ("minute", re.compile(r"\bminutes?\b|分钟")),
    ("hour", re.compile(r"\bhours?\b|小时")),
    ("fahrenheit", re.compile(r"fahrenheit|华氏")),
    ("degree", re.compile(r"celsius|degrees?\b|temperature|度")),
)
_TARGET = re.compile(r"(?:\b(?:to|at|for|is|of|be)\b[\s\w]{0,6}|[到成为至])\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """``args``: one set of arguments for each call that is meant (two rooms are two calls); empty with a ``fault``."""

    args: tuple[dict[str, Any], ...] = ()
    fault: Fault = ""


def read_arguments(command: Command, said: Fluent, language: Language) -> Reading:
    """What ``said`` gives for the command's parameters; optional ones that nobody named are left out."""
    properties: Mapping[str, Any] = command.parameters.get("properties", {})
    required = command.parameters.get("required", ())
    args: dict[str, Any] = {}
    several: tuple[str, list[Any]] | None = None
    for name, schema in properties.items():
        values: list[Any] = []
        if "enum" in schema:
            values = _corrected(said, lambda text, s=schema: named_values(text, s, language))
        elif schema.get("type") in ("integer", "number"):
            fault, values = _number(said, name, schema, command, language)
            if fault:
                return Reading(fault=fault)
        elif schema.get("type") == "string":
            words = free_words(said.text, command, name, language)
            values = [words] if words else []
        if len(values) > 1:
            several = (name, values)
        if values:
            args[name] = values[0]
        elif name in required:
            return Reading(fault="missing")
    if several is None:
        return Reading((args,))
    return Reading(tuple({**args, several[0]: value} for value in several[1]))


def numbers_agree(call: Call, command: Command, said: Fluent, language: Language) -> bool:
    """Whether every number of a model's call is the one that the rules read: models turn "a quarter" into 100."""
    for name, schema in command.parameters.get("properties", {}).items():
        if schema.get("type") not in ("integer", "number") or name not in call.args:
            continue
        _, values = _number(said, name, schema, command, language)
        if call.args[name] not in (*values, schema.get("default")):
            return False
    return True


def _corrected(said: Fluent, read: Any) -> list[Any]:
    """What a correction names, else what was said before it."""
    for text in (said.text[said.corrected_from :], said.text[: said.corrected_from]):
        if text and (values := read(text)):
            return list(values)
    return []


def _number(
    said: Fluent, name: str, schema: Mapping[str, Any], command: Command, language: Language
) -> tuple[Fault, list[Any]]:
    dimension = _dimension(name, schema, command)

    def read(text: str) -> list[float]:
        return _values(text, dimension, schema, language)

    found = _corrected(said, read)
    if not found:
        return "", []
    value = round(found[0], 4)
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    outside = (low is not None and value < low) or (high is not None and value > high)
    if outside or value == schema.get("exclusiveMinimum") or value == schema.get("exclusiveMaximum"):
        return "out_of_range", []
    if schema.get("type") == "integer":
        # Shares of a level are rounded (a third is 33 %); a duration that does not fit is not.
        if dimension != "percent" and value != int(value):
            return "out_of_range", []
        return "", [round(value)]
    return "", [value]


def _dimension(name: str, schema: Mapping[str, Any], command: Command) -> Dimension:
    """What a number counts, by the parameter's name, else its description, else the command's."""
    for text in (name.replace("_", " "), schema.get("description", ""), command.description):
        for dimension, pattern in _DIMENSIONS:
            if pattern.search(text.casefold()):
                return dimension
    return ""


def _values(text: str, dimension: Dimension, schema: Mapping[str, Any], language: Language) -> list[float]:
    """The number that is meant: one with the parameter's own unit, else one after "to", else the last."""
    found = [
        (quantity, value)
        for quantity in find_quantities(text, language)
        if (value := _convert(quantity, dimension)) is not None
    ]
    if not found and dimension == "percent":
        low, high = schema.get("minimum", 0), schema.get("maximum", 100)
        return [low + (high - low) * extreme.value for extreme in find_extremes(text, language)[-1:]]
    if not found:
        return []
    with_unit = [pair for pair in found if pair[0].unit]
    aimed = [pair for pair in found if _TARGET.search(text[: pair[0].start])]
    return [(with_unit or aimed or found)[-1][1]]


def _convert(quantity: Quantity, dimension: Dimension) -> float | None:
    """A quantity in the parameter's dimension; None where it counts something else."""
    unit, value = quantity.unit, quantity.value
    if dimension in SECONDS:
        return value * SECONDS[unit] / SECONDS[dimension] if unit in SECONDS else value if not unit else None
    if dimension == "percent":
        return value * 100 if unit == "share" else value if unit in ("", "percent") else None
    if dimension in ("degree", "fahrenheit"):
        if unit == "fahrenheit" and dimension == "degree":
            return float(round((value - 32) / 1.8))
        return value if unit in ("", "degree") else None
    return value if not unit else None
