"""Utterances with their right calls, and whether an answer is one of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..capabilities.command import Call, Command, Language
from ..capabilities.schema import CompiledSchema, compile_schema, validate_args
from ..core.errors import FamulusError, InvalidArguments
from .declared import ANSWER, read_json

RESTRAINT = ("chat", "unsupported")
"""Kinds of utterances that no command answers."""
_LEADING = re.compile(r"^(?:some|the|to)\s+")

Canonical = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


@dataclass(frozen=True)
class Item:
    """An utterance; ``right`` holds the call lists that are right, the expected one first."""

    id: str
    language: Language
    kind: str
    text: str
    right: tuple[tuple[Call, ...], ...]


def load_items(path: Path) -> list[Item]:
    """A JSON list of ``{id, lang, kind, text, calls, alt?}``. Raises ``InvalidArguments`` for another form."""
    try:
        return [
            Item(
                id=str(raw["id"]),
                language=cast(Language, raw["lang"]),
                kind=str(raw["kind"]),
                text=str(raw["text"]),
                right=tuple(
                    tuple(Call(method=call["method"], args=call.get("args", {})) for call in calls)
                    for calls in (raw["calls"], *raw.get("alt", ()))
                ),
            )
            for raw in read_json(path)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArguments(f"{path} does not fit the form of utterances: {error!r}.") from None


class Scorer:
    """Compares calls with defaults filled in; no call at all is the answer in words, whose text is not compared."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self._schemas: Mapping[str, CompiledSchema] = {c.name: compile_schema(c.parameters) for c in commands}

    def methods_right(self, item: Item, calls: Iterable[Call]) -> bool:
        got = [method for method, _ in self._canonical(calls)]
        return any(got == [method for method, _ in self._canonical(right)] for right in item.right)

    def right(self, item: Item, calls: Iterable[Call]) -> bool:
        """Commands and arguments."""
        got = self._canonical(calls)
        return any(got == self._canonical(right) for right in item.right)

    def _canonical(self, calls: Iterable[Call]) -> Canonical:
        return tuple((call.method, self._arguments(call)) for call in calls) or ((ANSWER, ()),)

    def _arguments(self, call: Call) -> tuple[tuple[str, Any], ...]:
        if call.method == ANSWER:
            return ()
        args: dict[str, Any] = dict(call.args)
        if schema := self._schemas.get(call.method):
            try:
                args = validate_args(schema, args)
            except FamulusError:
                return (("invalid", repr(sorted(args.items()))),)
            free = {name for name, parameter in schema.parameters.items() if parameter.type == "string"}
            args = {name: _comparable(value) if name in free else value for name, value in args.items()}
        return tuple(sorted(args.items()))


def _comparable(text: str) -> str:
    """Without case, punctuation and a leading "some", "the" or "to"."""
    kept = "".join(c for c in unicodedata.normalize("NFKC", text) if not unicodedata.category(c).startswith(("P", "S")))
    return _LEADING.sub("", " ".join(kept.casefold().split()))
