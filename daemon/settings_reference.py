"""``python -m famulus.daemon.settings_reference docs/settings.md``: renew the reference of all keys in that page.

The page keeps its own words; what stands between the two marks is made from the models in ``settings.py``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .settings import Settings
from .settings_files import ENVIRONMENT_PREFIX

BEGIN = "<!-- reference: made by python -m famulus.daemon.settings_reference -->"
END = "<!-- /reference -->"
_KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
_UNITS = {"_s": "seconds", "_mb": "megabytes"}


def renewed(page: str) -> str:
    """The page with the reference of today; raises ``ValueError`` where it lacks a mark."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page needs a line {BEGIN} and, below it, a line {END}.")
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def reference() -> str:
    """A table for each section of famulus.toml, as Markdown."""
    return "\n".join(line for name, field in Settings.model_fields.items() for line in _section(name, field.default))


def _section(name: str, defaults: BaseModel) -> Iterator[str]:
    yield f"### `[{name}]`"
    yield ""
    yield (type(defaults).__doc__ or "").strip()
    yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for key, field in type(defaults).model_fields.items():
        cells = (f"`{key}`", _value(key, field), f"`{_toml(getattr(defaults, key))}`", field.description or "")
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
    example = next(iter(type(defaults).model_fields))
    yield ""
    yield f"In the environment: `{ENVIRONMENT_PREFIX}{name.upper()}__{example.upper()}`, and so on."
    yield ""


def _value(key: str, field: FieldInfo) -> str:
    """What may be written: the choices, or the kind with its bounds and unit."""
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{_toml(choice)}`" for choice in get_args(annotation))
    kind = "list of texts" if get_origin(annotation) is tuple else _KINDS[annotation]
    bounds = [
        f"{sign} {getattr(rule, type(rule).__name__.lower()):g}" for rule in field.metadata for sign in _sign(rule)
    ]
    unit = next((unit for ending, unit in _UNITS.items() if key.endswith(ending)), "")
    return ", ".join(filter(None, (f"{kind} of {unit}" if unit else kind, " and ".join(bounds))))


def _sign(rule: object) -> Iterator[str]:
    if sign := _SIGNS.get(type(rule)):
        yield sign


def _toml(value: object) -> str:
    """For text, numbers, booleans and lists TOML is written as JSON is."""
    return json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(renewed(target.read_text("utf-8")), "utf-8")
