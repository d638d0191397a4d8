"""The local pipeline: from a sentence that no template knows to validated calls, by the model on the device."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from ...capabilities.command import Call, Command
from ...core.errors import FamulusError, InvalidArguments, ModelUnavailable
from ...engines.handles import LanguageModelHandle
from ...engines.protocols import Completion, Generation
from ...engines.slot import Slot
from .grammar import MAX_CALLS, calls_grammar
from .prompts import TEXT_REPLY, render_prefix, render_repair, render_suffix
from .support import keep_supported
from .text import MAX_WORDS_BYTES

_LOG = logging.getLogger(__name__)
_STOP = ("<|im_end|>",)
_SUFFIX_TOKENS = 512
"""Room in the context for the sentence, one wrong answer and its repair."""


class LocalPipeline:
    """One decode under a grammar, one repair round, then nothing: an empty list means "not understood"."""

    def __init__(
        self,
        slot: Slot[LanguageModelHandle],
        *,
        commands: Callable[[], Sequence[Command]],
        validate: Callable[[Call], Call],
        context: int,
        max_tokens: int,
        timeout_s: float,
    ) -> None:
        self._slot = slot
        self._commands = commands
        self._validate = validate
        self._budget_tokens = context - max_tokens - _SUFFIX_TOKENS
        self._max_tokens = max_tokens
        self._timeout_s = timeout_s
        self._rendered: tuple[tuple[Command, ...], str, str] | None = None

    async def prefetch(self) -> None:
        """Load the model and make the prefix ready while a person is still speaking; never raises."""
        try:
            async with self._slot.lease(priority="background", timeout_s=self._timeout_s) as model:
                await model.prepare(self._prompt()[0], timeout_s=self._timeout_s)
        except FamulusError as err:
            _LOG.info("the language model was not prefetched: %s", err)

    async def understand(self, text: str, priority: Literal["voice", "background"]) -> list[Call]:
        """Validated calls for a normalised sentence; empty when the model finds none that is valid.

        Raises ``ModelUnavailable``, ``Busy`` or ``TimedOut`` when the model cannot be asked.
        """
        if len(text.encode()) > MAX_WORDS_BYTES:
            return []
        prefix, grammar = self._prompt()
        suffix = render_suffix(text)
        async with self._slot.lease(priority=priority, timeout_s=self._timeout_s) as model:
            for attempt in (1, 2):
                answer = await self._generate(model, prefix, suffix, grammar)
                try:
                    return self._accepted(parse_calls(answer), text)
                except FamulusError as err:
                    _LOG.debug("answer %d of the model is not valid: %s", attempt, err)
                    suffix += render_repair(answer, err.message)
        return []

    def _accepted(self, calls: Sequence[Call], text: str) -> list[Call]:
        """The calls whose arguments are valid and were said. Raises what validation raises."""
        by_name = {command.name: command for command in self._commands()}
        accepted: list[Call] = []
        for call in calls:
            if call.method == TEXT_REPLY.name:
                continue
            valid = self._validate(call)
            supported = keep_supported(valid, by_name[valid.method], text)
            if supported is None:
                _LOG.debug("%s is dropped: its arguments were not said", valid.method)
            else:
                accepted.append(self._validate(supported))
        return accepted

    async def _generate(self, model: LanguageModelHandle, prefix: str, suffix: str, grammar: str) -> str:
        request = Generation(prefix=prefix, suffix=suffix, grammar=grammar, max_tokens=self._max_tokens, stop=_STOP)
        async for item in model.generate(request, timeout_s=self._timeout_s):
            if isinstance(item, Completion):
                _LOG.info(
                    "model: %d prompt tokens (%s prefix), %d tokens, first after %.0f ms, all %.0f ms",
                    item.prompt_tokens,
                    item.prefix_source,
                    item.tokens,
                    item.first_token_s * 1000,
                    item.total_s * 1000,
                )
                return item.text
        raise ModelUnavailable("The language model ended without an answer: ask again.")

    def _prompt(self) -> tuple[str, str]:
        """Prefix and grammar of the commands offered now; rendered again only when these change."""
        commands = tuple(self._commands())
        if self._rendered is None or self._rendered[0] != commands:
            prefix = render_prefix(commands, self._budget_tokens)
            self._rendered = (commands, prefix, calls_grammar((*commands, TEXT_REPLY)))
        return self._rendered[1], self._rendered[2]


def parse_calls(answer: str) -> list[Call]:
    """The calls in a model's answer. Raises ``InvalidArguments`` for anything but one whole JSON array of calls."""
    try:
        value: Any = json.loads(answer)
    except (ValueError, RecursionError):
        raise InvalidArguments("It is not one whole JSON array.") from None
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CALLS:
        raise InvalidArguments(f"It must be a JSON array of 1 to {MAX_CALLS} calls.")
    try:
        return [Call.model_validate(item) for item in value]
    except ValidationError:
        raise InvalidArguments('Each call must be {"method": "name", "args": {}}.') from None
