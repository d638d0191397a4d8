"""Message catalogues: what a person sees or hears, in each language."""

from __future__ import annotations

import tomllib
from pathlib import Path


class Texts:
    """One room's catalogue: a TOML file with a table per message and a string per language.

    A message that lacks a language falls back to English. Read once, when the room is imported.
    """

    def __init__(self, file: Path) -> None:
        self._messages: dict[str, dict[str, str]] = tomllib.loads(file.read_text(encoding="utf-8"))

    def get(self, key: str, language: str, **values: object) -> str:
        """The message with its ``{placeholders}`` filled. A missing key is a bug and raises ``KeyError``."""
        message = self._messages[key]
        return message.get(language, message["en"]).format(**values)

    @property
    def messages(self) -> tuple[str, ...]:
        """The keys of all messages."""
        return tuple(self._messages)
