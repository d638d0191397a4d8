"""A GBNF grammar that admits exactly the calls of the offered commands, as a JSON array.

The engine checks a grammar before use; ranges of numbers are checked by the registry's validation,
since a grammar bounds only the count of digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...capabilities.command import Command

MAX_CALLS = 3
_MAX_STRING = 120

_SHARED_RULES = (
    f'string ::= "\\"" char{{1,{_MAX_STRING}}} "\\""',
    r'char ::= [^"\\\x00-\x1F\x7F]',
    r'number ::= "-"? [0-9]{1,9} ("." [0-9]{1,4})?',
    r'boolean ::= "true" | "false"',
)


def calls_grammar(commands: Iterable[Command]) -> str:
    """The grammar for one to MAX_CALLS calls. Raises ``ValueError`` without a command."""
    rules: list[str] = []
    names: list[str] = []
    for index, command in enumerate(commands):
        name = f"call{index}"
        names.append(name)
        head = _literal(f'{{"method": {json.dumps(command.name)}, "args": {{')
        rules.append(f'{name} ::= {head} {_arguments(command.parameters)} "}}}}"')
    if not names:
        raise ValueError("a grammar needs at least one command")
    more = f'(", " call){{0,{MAX_CALLS - 1}}}'
    return "\n".join([f'root ::= "[" call {more} "]"', f"call ::= {' | '.join(names)}", *rules, *_SHARED_RULES]) + "\n"


def _arguments(parameters: dict[str, Any]) -> str:
    """Required fields in declared order, then any of the optional ones in declared order."""
    properties: dict[str, Any] = parameters.get("properties", {})
    required = [name for name in properties if name in parameters.get("required", ())]
    optional = [name for name in properties if name not in required]
    fields = {name: f"{_literal(json.dumps(name) + ': ')} {_value(schema)}" for name, schema in properties.items()}
    tail = [f'(", " {fields[name]})?' for name in optional]
    if required:
        return ' ", " '.join(fields[name] for name in required) + "".join(f" {part}" for part in tail)
    if not optional:
        return '""'
    starts = [" ".join([fields[name], *tail[i + 1 :]]) for i, name in enumerate(optional)]
    return f"({' | '.join(starts)})?"


def _value(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "(" + " | ".join(_literal(json.dumps(value, ensure_ascii=False)) for value in schema["enum"]) + ")"
    kind = schema.get("type")
    if kind == "integer":
        low, high = schema.get("minimum", -999_999_999), schema.get("maximum", 999_999_999)
        digits = max(len(str(abs(int(low)))), len(str(abs(int(high)))))
        minus = "" if low >= 0 else '"-"? '
        return f"{minus}[0-9]{{1,{digits}}}"
    if kind == "array":
        item = _value(schema.get("items", {}))
        return f'"[" ({item} (", " {item}){{0,{min(schema.get("maxItems", 8), 8) - 1}}})? "]"'
    return {"number": "number", "boolean": "boolean"}.get(str(kind), "string")


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
