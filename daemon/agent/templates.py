"""The templates of all commands on offer, compiled per language and kept in step with the registry.

Compiling takes about 1 ms per template, so it happens in a thread; a sentence that comes right after an app has
registered waits for it. A language costs nothing before its first sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ...capabilities.command import Call, Command, Language
from ...capabilities.registry import Registry
from .sentences import SentenceMatcher


class Templates:
    """Matches sentences against what the registry offers now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._matchers: dict[Language, SentenceMatcher] = {}
        self._versions: dict[Language, int] = {}
        self._updates: dict[Language, asyncio.Task[None]] = {}

    def prepare(self, languages: Iterable[Language] = ()) -> None:
        """Begin to follow the registry for these languages and those in use, before the next sentence asks for it."""
        for language in {*languages, *self._matchers}:
            self._begin(language)

    async def match(self, text: str, language: Language) -> list[Call]:
        """The calls of a normalised sentence; empty when no template, or not every part of it, says it."""
        while self._versions.get(language) != self._registry.version:
            await asyncio.shield(self._begin(language))
        return self._matchers[language].match(text)

    def _begin(self, language: Language) -> asyncio.Task[None]:
        task = self._updates.get(language)
        if task is None or task.done():
            task = asyncio.create_task(self._update(language), name=f"compile {language} templates")
            self._updates[language] = task
        return task

    async def _update(self, language: Language) -> None:
        matcher = self._matchers.setdefault(language, SentenceMatcher(language))
        while self._versions.get(language) != self._registry.version:
            version, commands = self._registry.version, _with_departed(self._registry)
            await asyncio.to_thread(matcher.update, commands)
            self._versions[language] = version


def _with_departed(registry: Registry) -> Sequence[Command]:
    """Offered commands, and those of apps that have gone: their sentences lead to a plain "is not running"."""
    return [*registry.commands(), *registry.departed_commands()]
