"""A run's result in the types of D-Bus."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dbus_fast import Variant


def to_variants(result: Mapping[str, Any]) -> dict[str, Variant]:
    """``result`` is ``RunResult.to_dict()``, with ``voice_ms`` for a spoken run; gives the ``a{sv}`` of Agent1."""
    variants = {
        **{key: Variant("s", str(result.get(key, ""))) for key in ("run", "status", "reply", "decided_by", "error")},
        "calls": Variant("s", to_json(result.get("calls", []))),
        "stages_ms": Variant("a{sd}", _milliseconds(result.get("stages_ms", {}))),
    }
    if "voice_ms" in result:
        variants["voice_ms"] = Variant("a{sd}", _milliseconds(result["voice_ms"]))
    return variants


def to_json(value: Any) -> str:
    """JSON text; what is no JSON value becomes its text rather than an error."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def details(data: Mapping[str, Any]) -> dict[str, Variant]:
    """The numbers and booleans of an event's data: nothing in which words could travel."""
    variants: dict[str, Variant] = {}
    for key, value in data.items():
        if isinstance(value, bool):
            variants[key] = Variant("b", value)
        elif isinstance(value, (int, float)):
            variants[key] = Variant("d", float(value))
    return variants


def _milliseconds(times: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(ms) for name, ms in times.items()}
