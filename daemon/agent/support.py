"""Whether a person really said what a model put into a call: an argument is never invented."""

from __future__ import annotations

import re
from typing import Any

from ...capabilities.command import Call, Command

_NUMBER = re.compile(
    r"\d|[零〇一二三四五六七八九十百千两半]"
    r"|\b(zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(thir|four|fif|six|seven|eigh|nine)teen"
    r"|(twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|half|quarter|third|an?|full|max|maximum|min|minimum)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z0-9']+|[㐀-鿿]", re.IGNORECASE)


def keep_supported(call: Call, command: Command, text: str) -> Call | None:
    """The call without optional arguments that the text does not hold; None when a required one is invented."""
    properties = command.parameters.get("properties", {})
    required = command.parameters.get("required", ())
    args: dict[str, Any] = {}
    for name, value in call.args.items():
        schema = properties.get(name, {})
        if value == schema.get("default", ...) or _is_supported(value, schema, text):
            args[name] = value
        elif name in required:
            return None
    return Call(method=call.method, args=args)


def _is_supported(value: Any, schema: dict[str, Any], text: str) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return bool(_NUMBER.search(text))
    if isinstance(value, list):
        return all(_is_supported(item, schema.get("items", {}), text) for item in value)
    spoken = [str(value), *schema.get("x-names", {}).get(str(value), [])]
    return any(_mostly_in(words, text) for words in spoken)


def _mostly_in(words: str, text: str) -> bool:
    """At least half of the words are in the text."""
    said = {word.casefold() for word in _WORD.findall(text)}
    wanted = [word.casefold() for word in _WORD.findall(words)]
    return bool(wanted) and 2 * sum(word in said for word in wanted) >= len(wanted)
