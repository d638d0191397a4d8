"""A function's signature as the JSON Schema of a command's parameters."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from ..core.errors import InvalidArguments

_TYPES: dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


@dataclass(frozen=True)
class Range:
    """The bounds of a number, both included: ``Annotated[int, Range(0, 100)]``."""

    minimum: float
    maximum: float


@dataclass(frozen=True)
class Names:
    """What else people call a value: ``Annotated[Literal["kitchen"], Names(kitchen=["厨房"])]``.

    Values that are no Python names go into a mapping: ``Names({"living room": ["客厅"]})``.
    """

    names: Mapping[str, list[str]]

    def __init__(self, names: Mapping[str, list[str]] | None = None, **more: list[str]) -> None:
        object.__setattr__(self, "names", {**(names or {}), **more})


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of a function's parameters.

    Known are ``int``, ``float``, ``str``, ``bool``, ``Literal`` of texts, ``list`` of those, ``Optional`` of those
    (such a parameter may be left out) and ``Annotated`` with :class:`Range`, :class:`Names` or a text that
    describes the parameter. Raises ``InvalidArguments`` that names the parameter for anything else.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidArguments(f"{_named(function)} must take named parameters only, not {parameter}.")
        if name not in hints:
            raise InvalidArguments(f"The parameter {name} of {_named(function)} needs a type, such as {name}: int.")
        schema, optional = _schema_of(hints[name], f"The parameter {name} of {_named(function)}")
        if parameter.default is inspect.Parameter.empty:
            if not optional:
                required.append(name)
        elif isinstance(parameter.default, (str, int, float, list)):
            schema["default"] = parameter.default
        elif parameter.default is not None:
            raise InvalidArguments(f"The default of {name} of {_named(function)} must be a JSON value or None.")
        properties[name] = schema
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def optional_parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Parameters without a default that may be left out: they are then passed as None."""
    required = parameters_of(function).get("required", [])
    parameters = inspect.signature(function).parameters
    return tuple(n for n, p in parameters.items() if n not in required and p.default is inspect.Parameter.empty)


def _schema_of(hint: Any, subject: str) -> tuple[dict[str, Any], bool]:
    """The schema of a type, and whether None is one of its values."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        schema, optional = _schema_of(args[0], subject)
        for note in args[1:]:
            _annotate(schema, note)
        return schema, optional
    if origin in (Union, types.UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        if len(inner) == 1 and len(inner) < len(args):
            return _schema_of(inner[0], subject)[0], True
    if hint in _TYPES:
        return {"type": _TYPES[hint]}, False
    if origin is Literal and all(isinstance(arg, str) for arg in args):
        return {"type": "string", "enum": list(args)}, False
    if origin is list:
        return {"type": "array", "items": _schema_of(args[0], subject)[0]}, False
    raise InvalidArguments(f"{subject} must be int, float, str, bool, Literal of texts, list or Optional of those.")


def _annotate(schema: dict[str, Any], note: Any) -> None:
    match note:
        case Range():
            schema["minimum"], schema["maximum"] = note.minimum, note.maximum
        case Names():
            schema["x-names"] = {value: list(names) for value, names in note.names.items()}
        case str():
            schema["description"] = note


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
