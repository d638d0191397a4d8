"""What a sentence means that no template knows, by its likeness to what people say for each command.

The embedder's worker learns the declared phrases of the offered commands and a corpus of what is no command; rules
read the arguments. The daemon itself keeps only the name of what was learnt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ....capabilities.command import Call, Command, Language
from ....core.errors import FamulusError, NotFound
from ....engines.handles import EmbedderHandle
from ....engines.slot import Slot
from ..text import MAX_WORDS_BYTES
from .clauses import split_clauses
from .decide import Meaning, decide, spans_of
from .disfluency import make_fluent
from .examples import as_classified, training_set

_LOG = logging.getLogger(__name__)
_ENOUGH = 8
"""A command with fewer phrases is not known well enough to say that a sentence does not mean it."""

_POSSIBLE = 0.05
"""Such a command may still be what was meant from this probability on: a language model is asked."""

Templates = Callable[[str, Language], Awaitable[Sequence[Call]]]


async def _no_template(text: str, language: Language) -> Sequence[Call]:
    return ()


@dataclass(frozen=True)
class _Learnt:
    """The classifier for these commands; ``labels`` are its columns, ``barely`` the commands with too few phrases."""

    commands: tuple[Command, ...]
    key: str
    labels: tuple[str, ...]
    barely: tuple[str, ...]


class SemanticMatcher:
    """Tells sure, unsure and no command apart; the model need only be asked about what is unsure."""

    def __init__(
        self, slot: Slot[EmbedderHandle], *, commands: Callable[[], Sequence[Command]], timeout_s: float
    ) -> None:
        """``timeout_s`` bounds one question, with the load and the learning where they are needed."""
        self._slot = slot
        self._commands = commands
        self._timeout_s = timeout_s
        self._learnt: _Learnt | None = None

    async def prefetch(self) -> None:
        """Load the embedder and learn the commands while a person is still speaking; never raises."""
        try:
            await self.meaning("hello", "en", "background")
        except FamulusError as error:
            _LOG.info("the sentence encoder was not prefetched: %s", error)

    async def meaning(
        self,
        text: str,
        language: Language,
        priority: Literal["voice", "background"],
        templates: Templates = _no_template,
    ) -> Meaning:
        """The meaning of a normalised sentence; ``templates`` tells what a single clause means by the templates.

        Raises ``ModelUnavailable``, ``Busy`` or ``TimedOut`` when the embedder cannot be asked.
        """
        commands = tuple(self._commands())
        if not commands or len(text.encode()) > MAX_WORDS_BYTES:
            return Meaning("unsure")
        said = make_fluent(text, language)
        clauses = split_clauses(said.text, language)
        spans = spans_of(clauses)
        texts = [as_classified(said.text[clauses[first][0] : clauses[past - 1][1]]) for first, past in spans]
        learnt, rows = await self._classify(commands, texts, priority)
        probabilities = {
            span: dict(zip(learnt.labels, row, strict=True)) for span, row in zip(spans, rows, strict=True)
        }
        certain = {
            (number, number + 1): await templates(said.text[start:end], language)
            for number, (start, end) in enumerate(clauses)
            if len(clauses) > 1
        }
        by_name = {command.name: command for command in commands}
        meaning = decide(said, language, clauses, probabilities, by_name, templates=certain)
        if meaning.zone == "none":
            possible = [n for n in learnt.barely if any(row[n] >= _POSSIBLE for row in probabilities.values())]
            return replace(meaning, zone="unsure" if possible else "none", candidates=tuple(possible))
        return meaning

    async def _classify(
        self, commands: tuple[Command, ...], texts: list[str], priority: Literal["voice", "background"]
    ) -> tuple[_Learnt, list[list[float]]]:
        learnt = self._learnt
        async with self._slot.lease(priority=priority, timeout_s=self._timeout_s) as embedder:
            if learnt is not None and learnt.commands == commands:
                try:
                    return learnt, await embedder.classify(learnt.key, texts, timeout_s=self._timeout_s)
                except NotFound:
                    pass  # another process than the one that learnt it
            examples = await asyncio.to_thread(training_set, commands)
            learnt = _Learnt(commands, examples.key, tuple(sorted(set(examples.labels))), _barely_known(commands))
            await embedder.fit(learnt.key, list(examples.texts), list(examples.labels), timeout_s=self._timeout_s)
            self._learnt = learnt
            return learnt, await embedder.classify(learnt.key, texts, timeout_s=self._timeout_s)


def _barely_known(commands: Sequence[Command]) -> tuple[str, ...]:
    return tuple(
        command.name
        for command in commands
        if len(command.examples) + sum(map(len, command.sentences.values())) < _ENOUGH
    )
