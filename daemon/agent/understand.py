"""From a sentence to calls: sentences first on every turn, then earlier model results, then the model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ...capabilities.command import Call, Command, Language
from ...capabilities.registry import Registry
from .local import LocalPipeline
from .run import Decider, Utterance
from .sentences import SentenceMatcher
from .text import comparable, language_of, normalise

_CACHE_SIZE = 256


@dataclass(frozen=True)
class Understanding:
    """What an utterance means: its calls (none: not understood), and which stage decided."""

    language: Language
    calls: tuple[Call, ...] = ()
    decided_by: Decider = ""


class Understander:
    """Tries the cheap and certain ways first. ``pipeline`` is None where no model is configured."""

    def __init__(self, registry: Registry, pipeline: LocalPipeline | None, language: str = "auto") -> None:
        self._registry = registry
        self._pipeline = pipeline
        self._language = language
        self._matcher = SentenceMatcher(languages=("zh",) if language == "zh" else ("en",))
        self._matcher_version = -1
        self._cache: OrderedDict[tuple[str, int], tuple[Call, ...]] = OrderedDict()

    def refresh(self) -> None:
        """Follow the registry now, rather than when the next person speaks."""
        if self._matcher_version != self._registry.version:
            self._matcher.update(_commands_with_sentences(self._registry))
            self._matcher_version = self._registry.version
            self._cache.clear()

    def normalised(self, utterance: Utterance) -> tuple[str, Language]:
        """The text in comparable form and its language (the utterance's own wins over the configured one)."""
        asked_for = utterance.language if utterance.language != "auto" else self._language
        language = cast(Language, language_of(utterance.text, asked_for))
        return normalise(utterance.text, language), language

    def quick(self, utterance: Utterance) -> Understanding | None:
        """What needs no model: a sentence, an earlier result, or nothing at all where no model is configured.

        None: only the model can tell.
        """
        text, language = self.normalised(utterance)
        self.refresh()
        if calls := self._matcher.match(text, language):
            return Understanding(language, tuple(calls), "sentences")
        key = (comparable(text), self._registry.version)
        if cached := self._cache.get(key):
            self._cache.move_to_end(key)
            return Understanding(language, cached, "cache")
        return Understanding(language) if self._pipeline is None else None

    async def ask_model(self, utterance: Utterance) -> Understanding:
        """What the model makes of it. Raises ``ModelUnavailable``, ``Busy`` or ``TimedOut``."""
        assert self._pipeline is not None, "quick() answers where there is no model"
        text, language = self.normalised(utterance)
        key = (comparable(text), self._registry.version)
        found = tuple(await self._pipeline.understand(text, "voice" if utterance.source == "voice" else "background"))
        if found and self._registry.version == key[1]:
            self._cache[key] = found
            if len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return Understanding(language, found, "model")


def _commands_with_sentences(registry: Registry) -> Sequence[Command]:
    """Offered commands, and those of apps that have gone: their sentences lead to a plain "is not running"."""
    offered = registry.commands()
    names = {command.name for command in offered}
    gone = [command for command in registry.departed_commands() if command.name not in names]
    return [*offered, *gone]
