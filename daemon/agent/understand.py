"""From a sentence to calls: sentences first on every turn, then earlier model results, then the model."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

from ...capabilities.command import Call, Language
from ...capabilities.registry import Registry
from .local import LocalPipeline
from .run import Decider, Utterance
from .templates import Templates
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
        self._templates = Templates(registry)
        self._cache: OrderedDict[tuple[str, int], tuple[Call, ...]] = OrderedDict()

    def prepare(self) -> None:
        """Follow the registry now, rather than when the next person speaks."""
        self._templates.prepare(("zh",) if self._language == "zh" else ("en",))

    def normalised(self, utterance: Utterance) -> tuple[str, Language]:
        """The text in comparable form and its language (the utterance's own wins over the configured one)."""
        asked_for = utterance.language if utterance.language != "auto" else self._language
        language = cast(Language, language_of(utterance.text, asked_for))
        return normalise(utterance.text, language), language

    async def quick(self, utterance: Utterance) -> Understanding | None:
        """What needs no model: a sentence, an earlier result, or nothing at all where no model is configured.

        None: only the model can tell.
        """
        text, language = self.normalised(utterance)
        if calls := await self._templates.match(text, language):
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
