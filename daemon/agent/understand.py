"""From a sentence to calls: sentences first on every turn, then earlier results, then likeness, then the model."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, cast

from ...capabilities.command import Call, Language
from ...capabilities.registry import Registry
from ...core.errors import Busy, InvalidArguments, ModelUnavailable, NotFound, TimedOut
from .local import LocalPipeline
from .meaning.arguments import numbers_agree
from .meaning.clauses import split_clauses
from .meaning.decide import Meaning
from .meaning.disfluency import make_fluent
from .meaning.matcher import SemanticMatcher
from .run import Decider, Utterance
from .stop import is_stop
from .templates import Templates
from .text import MAX_WORDS_BYTES, comparable, language_of, normalise

_LOG = logging.getLogger(__name__)
_CACHE_SIZE = 256


@dataclass(frozen=True)
class Understanding:
    """What an utterance means: its calls (none: not understood), and which stage decided.

    ``problem`` tells, where a sentence was understood and cannot be done as it was said, what is wrong with it.
    """

    language: Language
    calls: tuple[Call, ...] = ()
    decided_by: Decider = ""
    problem: str = ""


class Understander:
    """Tries the cheap and certain ways first. ``pipeline`` and ``semantic`` are None where no model is configured."""

    def __init__(
        self,
        registry: Registry,
        pipeline: LocalPipeline | None,
        language: str = "auto",
        semantic: SemanticMatcher | None = None,
    ) -> None:
        self._registry = registry
        self._pipeline = pipeline
        self._semantic = semantic
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

    async def knows(self, text: str, language: str = "auto") -> bool:
        """Whether a text is a stop word or a sentence of a command."""
        normalised, spoken = self.normalised(Utterance(text, language=language))
        return is_stop(normalised) or bool(await self._templates.match(normalised, spoken))

    async def quick(self, utterance: Utterance) -> Understanding | None:
        """What needs no model: a sentence, an earlier result, or nothing at all where no model is configured.

        None: only a model can tell.
        """
        text, language = self.normalised(utterance)
        calls = await self._said(text, language)
        if problem := self._problem(calls):
            return Understanding(language, (), "sentences", problem)
        if calls and (self._semantic is None or not self._may_hold_more(calls, text, language)):
            return Understanding(language, calls, "sentences")
        key = (comparable(text), self._registry.version)
        if cached := self._cache.get(key):
            self._cache.move_to_end(key)
            return Understanding(language, cached, "cache")
        return Understanding(language) if self._pipeline is None and self._semantic is None else None

    async def ask_model(self, utterance: Utterance) -> Understanding:
        """What the models make of it: likeness to what people say for each command, then the language model.

        The language model is asked where likeness is unsure, and only about what likeness thinks possible. Raises
        ``ModelUnavailable``, ``Busy`` or ``TimedOut``.
        """
        text, language = self.normalised(utterance)
        key = (comparable(text), self._registry.version)
        priority: Literal["voice", "background"] = "voice" if utterance.source == "voice" else "background"
        meaning = await self._likely(text, language, priority)
        if (calls := await self._said(text, language)) and (meaning.zone != "sure" or len(meaning.calls) < 2):
            return Understanding(language, calls, "sentences")  # free words that held no other wish
        if meaning.zone == "sure":
            return self._remembered(key, Understanding(language, meaning.calls, "semantic"))
        if meaning.zone == "none":
            return Understanding(language, (), "semantic")
        if self._pipeline is None:
            return Understanding(language)
        found = tuple(await self._pipeline.understand(text, priority))
        if not all(self._is_credible(call, meaning, text, language) for call in found):
            found = ()
        return self._remembered(key, Understanding(language, found, "model"))

    def _is_credible(self, call: Call, meaning: Meaning, text: str, language: Language) -> bool:
        """Whether a model's call is one that likeness thinks possible, with the numbers that were said."""
        if meaning.candidates and call.method not in meaning.candidates:
            return False
        command = self._registry.find(call.method)
        return numbers_agree(call, command, make_fluent(text, language), language)

    async def _said(self, text: str, language: Language) -> tuple[Call, ...]:
        """What the templates make of it, as it was said or without what carries no meaning."""
        calls = await self._templates.match(text, language)
        if not calls and len(text.encode()) <= MAX_WORDS_BYTES:
            fluent = make_fluent(text, language)
            if fluent.text != text and not fluent.corrected_from:
                calls = await self._templates.match(fluent.text, language)
        # "Use the camera and take a photo" is one photo.
        return tuple(call for call, _ in groupby(calls))

    def _problem(self, calls: Sequence[Call]) -> str:
        """What is wrong with the arguments of a sentence: "set the volume to 130 percent" is no wish for a model."""
        for call in calls:
            try:
                self._registry.validate(call)
            except InvalidArguments as error:
                return error.message
            except NotFound:  # its app has gone, which the run tells
                continue
        return ""

    def _may_hold_more(self, calls: Sequence[Call], text: str, language: Language) -> bool:
        """Whether the free words of a single call may have swallowed a second wish: "play jazz and turn it up"."""
        if len(calls) != 1 or len(split_clauses(text, language)) < 2:
            return False
        try:
            properties = self._registry.find(calls[0].method).parameters.get("properties", {})
        except NotFound:
            return False
        return any(properties[name]["type"] == "string" and "enum" not in properties[name] for name in calls[0].args)

    async def _likely(self, text: str, language: Language, priority: Literal["voice", "background"]) -> Meaning:
        """By likeness; ``unsure`` of everything where the embedder cannot be asked."""
        if self._semantic is None:
            return Meaning("unsure")
        try:
            return await self._semantic.meaning(text, language, priority, self._templates.match)
        except (ModelUnavailable, Busy, TimedOut) as error:
            _LOG.info("the sentence encoder was not asked: %s", error.message)
            return Meaning("unsure")

    def _remembered(self, key: tuple[str, int], found: Understanding) -> Understanding:
        if found.calls and self._registry.version == key[1]:
            self._cache[key] = found.calls
            if len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return found
