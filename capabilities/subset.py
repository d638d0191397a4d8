"""Reads the JSON Schema subset into parameters, and collects every fault by its path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeGuard, get_args

from pydantic import TypeAdapter, ValidationError

from .parameters import INT_MAX, INT_MIN, MAX_ITEMS, MAX_LENGTH, Parameter, ParameterType, did_you_mean, shown

MAX_PROPERTIES = 32
MAX_ENUM = 256
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_COMMON = ("type", "description", "default")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_KEYS: dict[ParameterType, tuple[str, ...]] = {
    "string": (*_COMMON, "enum", "minLength", "maxLength", "x-names"),
    "integer": (*_COMMON, *_BOUNDS),
    "number": (*_COMMON, *_BOUNDS),
    "boolean": _COMMON,
    "array": (*_COMMON, "items", "maxItems"),
}
_SCALARS = ", ".join(kind for kind in _KEYS if kind != "array")


class SubsetReader:
    """Walks one schema; ``problems`` holds a line for each fault, with its path and what is allowed."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, schema: object, path: str) -> dict[str, Parameter]:
        """The parameters in the order of their declaration; to be used only while there are no problems."""
        if not isinstance(schema, Mapping):
            self._refuse(path, f"must be an object, not {shown(schema)}")
            return {}
        if not schema:
            return {}
        self._only(schema, ("type", "description", "properties", "required", "additionalProperties"), path)
        if schema.get("type") != "object":
            self._refuse(f"{path}.type", 'must be "object"')
        if schema.get("additionalProperties", False) is not False:
            self._refuse(f"{path}.additionalProperties", "can only be false")
        self._description(schema, path)
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping) or len(properties) > MAX_PROPERTIES:
            self._refuse(f"{path}.properties", f"must be an object of at most {MAX_PROPERTIES} parameters")
            return {}
        required = self._required(schema.get("required", []), properties, f"{path}.required")
        parameters: dict[str, Parameter] = {}
        for name, prop in properties.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                self._refuse(f"{path}.properties", f"{shown(name)} is not a name (a letter, then letters, digits, _)")
                continue
            parameter = self._property(name, prop, f"{path}.properties.{name}")
            if parameter is not None:
                parameters[name] = replace(parameter, required=name in required)
        return parameters

    def _required(self, required: object, properties: Mapping[str, object], path: str) -> list[str]:
        if not _is_texts(required):
            self._refuse(path, "must be a list of parameter names")
            return []
        for name in required:
            if name not in properties:
                self._refuse(path, f"{shown(name)} is not a property{did_you_mean(name, properties)}")
        return required

    def _property(self, name: str, prop: object, path: str) -> Parameter | None:
        if not isinstance(prop, Mapping):
            self._refuse(path, f"must be an object, not {shown(prop)}")
            return None
        kind = prop.get("type")
        if not _is_type(kind):
            self._refuse(f"{path}.type", f"must be one of {', '.join(_KEYS)}, not {shown(kind)}")
            return None
        before = len(self.problems)
        self._only(prop, _KEYS[kind], path)
        parameter = Parameter(name, kind, description=self._description(prop, path))
        if kind == "string":
            parameter = self._string(parameter, prop, path)
        elif kind in ("integer", "number"):
            parameter = self._number(parameter, prop, path)
        elif kind == "array":
            parameter = self._array(parameter, prop, path)
        if "default" in prop and len(self.problems) == before:
            parameter = self._default(parameter, prop["default"], path)
        return parameter

    def _description(self, prop: Mapping[str, object], path: str) -> str:
        description = prop.get("description", "")
        if isinstance(description, str) and len(description) <= MAX_LENGTH:
            return description
        self._refuse(f"{path}.description", f"must be text of at most {MAX_LENGTH} characters")
        return ""

    def _string(self, parameter: Parameter, prop: Mapping[str, object], path: str) -> Parameter:
        least = self._count(prop, "minLength", 0, MAX_LENGTH, path)
        most = self._count(prop, "maxLength", MAX_LENGTH, MAX_LENGTH, path)
        if least > most:
            self._refuse(f"{path}.minLength", "is above maxLength")
        if "enum" not in prop:
            if "x-names" in prop:
                self._refuse(f"{path}.x-names", "needs an enum beside it")
            return replace(parameter, min_length=least, max_length=most)
        values = prop["enum"]
        if not _is_texts(values) or not 0 < len(values) <= MAX_ENUM or len(set(values)) < len(values):
            self._refuse(f"{path}.enum", f"must be a list of 1 to {MAX_ENUM} different texts")
            return parameter
        if not all(0 < len(value) <= 200 and least <= len(value) <= most for value in values):
            self._refuse(f"{path}.enum", "holds a value that is empty, over 200 characters or outside the lengths")
        names = self._names(prop.get("x-names", {}), values, f"{path}.x-names")
        return replace(parameter, enum=tuple(values), names=names, min_length=least, max_length=most)

    def _names(self, names: object, values: list[str], path: str) -> dict[str, tuple[str, ...]]:
        if not isinstance(names, Mapping):
            self._refuse(path, "must be an object from a value to a list of spoken forms")
            return {}
        result: dict[str, tuple[str, ...]] = {}
        for value, forms in names.items():
            if value not in values:
                self._refuse(path, f"{shown(value)} is not a value of enum{did_you_mean(value, values)}")
            elif (
                not _is_texts(forms) or len(forms) > 50 or not all(form.strip() and len(form) <= 100 for form in forms)
            ):
                self._refuse(f"{path}.{value}", "must be a list of at most 50 texts of 1 to 100 characters")
            else:
                result[value] = tuple(forms)
        return result

    def _number(self, parameter: Parameter, prop: Mapping[str, object], path: str) -> Parameter:
        whole = parameter.type == "integer"
        low, high, above, below = (self._bound(prop, key, path, whole=whole) for key in _BOUNDS)
        if whole:
            low, above = _tighter(max, low, None if above is None else above + 1), None
            high, below = _tighter(min, high, None if below is None else below - 1), None
        first, last = _tighter(max, low, above), _tighter(min, high, below)
        if first is not None and last is not None:
            shut = first == last and first in (above, below)
            if first > last or shut:
                self._refuse(path, "leaves no number between its bounds")
        return replace(parameter, minimum=low, maximum=high, exclusive_minimum=above, exclusive_maximum=below)

    def _bound(self, prop: Mapping[str, object], key: str, path: str, *, whole: bool) -> float | None:
        if key not in prop:
            return None
        value = prop[key]
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not INT_MIN < value < INT_MAX:
            self._refuse(f"{path}.{key}", "must be a number of less than 64 bits")
            return None
        if whole and value != int(value):
            self._refuse(f"{path}.{key}", "must be a whole number")
            return None
        return int(value) if whole else value

    def _array(self, parameter: Parameter, prop: Mapping[str, object], path: str) -> Parameter:
        most = self._count(prop, "maxItems", MAX_ITEMS, MAX_ITEMS, path)
        items = prop.get("items")
        if not isinstance(items, Mapping) or items.get("type") == "array":
            self._refuse(f"{path}.items", f"must be an object whose type is one of {_SCALARS}")
            return parameter
        return replace(parameter, items=self._property(parameter.name, items, f"{path}.items"), max_items=most)

    def _default(self, parameter: Parameter, value: object, path: str) -> Parameter:
        try:
            checked = TypeAdapter(parameter.annotation).validate_python(value)
        except ValidationError:
            self._refuse(f"{path}.default", f"must be {parameter.expected()}, not {shown(value)}")
            return parameter
        return replace(parameter, has_default=True, default=checked)

    def _count(self, prop: Mapping[str, object], key: str, default: int, most: int, path: str) -> int:
        value = prop.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
            return value
        self._refuse(f"{path}.{key}", f"must be a whole number from 0 to {most}")
        return default

    def _only(self, prop: Mapping[str, object], allowed: tuple[str, ...], path: str) -> None:
        for key in prop:
            if key not in allowed:
                hint = did_you_mean(key, allowed)
                self._refuse(path, f"{shown(key)} is not supported, only {', '.join(allowed)}{hint}")

    def _refuse(self, path: str, text: str) -> None:
        self.problems.append(f"{path}: {text}")


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def _is_type(value: object) -> TypeGuard[ParameterType]:
    return isinstance(value, str) and value in get_args(ParameterType)


def _tighter(choose: Any, one: float | None, other: float | None) -> float | None:
    bounds = [bound for bound in (one, other) if bound is not None]
    return choose(bounds) if bounds else None
