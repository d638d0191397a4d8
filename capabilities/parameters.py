"""One parameter of a command: what its value must be, as words and as a type."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

ParameterType = Literal["string", "integer", "number", "boolean", "array"]

MAX_LENGTH = 2000
MAX_ITEMS = 100
# Beyond 64 bits a whole number does not survive D-Bus, SQLite or most JSON readers.
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_SHOWN = 50
_LISTED = 20
_DIGITS = re.compile(r"[+-]?[0-9]{1,18}")
_NOUNS = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


@dataclass(frozen=True)
class Parameter:
    """What a value must be; ``None`` for a bound means that there is none.

    A whole number's exclusive bounds are folded into ``minimum`` and ``maximum``. ``names`` maps a value of
    ``enum`` to further forms that people say, in any language (``x-names``). ``items`` describes the elements
    of an array. ``default`` counts only where ``has_default``.
    """

    name: str
    type: ParameterType
    required: bool = False
    has_default: bool = False
    default: Any = None
    description: str = ""
    enum: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: float | None = None
    exclusive_maximum: float | None = None
    min_length: int = 0
    max_length: int = MAX_LENGTH
    items: Parameter | None = None
    max_items: int = MAX_ITEMS

    @property
    def annotation(self) -> Any:
        """The type that pydantic checks, strictly but for whole numbers given as ``"30"`` or ``30.0``."""
        if self.enum:
            return Literal[self.enum]
        if self.type == "string":
            return Annotated[str, Field(strict=True, min_length=self.min_length, max_length=self.max_length)]
        if self.type == "boolean":
            return Annotated[bool, Field(strict=True)]
        if self.items is not None:
            return Annotated[list[self.items.annotation], Field(strict=True, max_length=self.max_items)]  # type: ignore[name-defined]
        if self.type == "integer":
            low = INT_MIN if self.minimum is None else int(self.minimum)
            high = INT_MAX if self.maximum is None else int(self.maximum)
            return Annotated[int, Field(strict=True, ge=low, le=high), BeforeValidator(_whole)]
        bounds = {"ge": self.minimum, "le": self.maximum, "gt": self.exclusive_minimum, "lt": self.exclusive_maximum}
        given: dict[str, Any] = {key: bound for key, bound in bounds.items() if bound is not None}
        return Annotated[float, Field(strict=True, allow_inf_nan=False, **given)]

    def expected(self) -> str:
        """The rest of a sentence that begins "<name> must be"."""
        if self.enum:
            more = f" or {len(self.enum) - _LISTED} others" if len(self.enum) > _LISTED else ""
            return ("one of " if len(self.enum) > 1 else "") + ", ".join(self.enum[:_LISTED]) + more
        if self.items is not None:
            return f"a list of at most {self.max_items} values, each {self.items.expected()}"
        return " ".join(part for part in (_NOUNS[self.type], self._bounds()) if part)

    def _bounds(self) -> str:
        if self.type == "string":
            least = f"{self.min_length} to " if self.min_length else "at most "
            return f"of {least}{self.max_length} characters"
        if self.minimum is not None and self.maximum is not None:
            return f"from {self.minimum} to {self.maximum}"
        bounds = (
            ("of at least", self.minimum),
            ("above", self.exclusive_minimum),
            ("of at most", self.maximum),
            ("below", self.exclusive_maximum),
        )
        return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return int(value)
    return value


def shown(value: object) -> str:
    """A value for an error message: as JSON, cut to 50 characters, so that no long input is repeated."""
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        text = json.dumps(value[:_SHOWN], ensure_ascii=False)
    elif value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and INT_MIN <= value <= INT_MAX):
        text = json.dumps(value)
    else:
        return "a number that is too large" if isinstance(value, int) else f"a {type(value).__name__[:_SHOWN]}"
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def did_you_mean(word: object, known: Iterable[str], form: str = "{}") -> str:
    """``"; did you mean room?"`` where one of ``known`` is close, else ``""``."""
    close = difflib.get_close_matches(str(word)[:100], list(known), n=1)
    return f"; did you mean {form.replace('{}', close[0])}?" if close else ""
