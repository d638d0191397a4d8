"""One call of a provider: bounded in time, cancelled properly, and never an exception to its caller."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..core.errors import Cancelled, Failed, FamulusError, TimedOut
from .command import Command, Outcome, OutcomeError
from .provider import CallContext, Provider
from .texts import TEXTS

_LOG = logging.getLogger(__name__)
_GRACE_S = 0.5
"""A provider may take this long to stop a call; then it is left behind."""


async def invoke(provider: Provider, command: Command, args: dict[str, Any], context: CallContext) -> Outcome:
    """The outcome of one call within the command's ``timeout_s``. Raises only ``CancelledError``."""
    task = asyncio.create_task(provider.invoke(command.name, args, context), name=f"call {context.call_id}")
    try:
        await asyncio.wait({task}, timeout=command.timeout_s)
    except asyncio.CancelledError:
        await _stop(task, provider, command, context)
        raise
    if not task.done():
        await _stop(task, provider, command, context)
        text = TEXTS.get("no_answer", context.language, command=command.name, seconds=command.timeout_s)
        return _error(TimedOut(text))
    return _outcome(task, command, context)


def _outcome(task: asyncio.Task[Outcome], command: Command, context: CallContext) -> Outcome:
    if task.cancelled():
        return _error(Cancelled(TEXTS.get("called_off", context.language, command=command.name)))
    error = task.exception()
    if isinstance(error, FamulusError):
        return _error(error)
    if error is None and isinstance(outcome := task.result(), Outcome):
        return outcome
    # An exception's own text may hold what a person said, so that it is told at DEBUG only.
    what = type(error).__name__ if error else f"a {type(task.result()).__name__} instead of an Outcome"
    _LOG.error("the provider of %s failed with %s", command.name, what, extra={"RUN": context.run_id})
    _LOG.debug("the provider of %s failed", command.name, exc_info=error)
    return _error(Failed(TEXTS.get("broke", context.language, command=command.name)))


async def _stop(task: asyncio.Task[Outcome], provider: Provider, command: Command, context: CallContext) -> None:
    """Tell the provider, then end its task; waits no longer than the grace."""
    told = asyncio.create_task(provider.cancel(context.call_id), name=f"cancel {context.call_id}")
    task.cancel()
    try:
        await asyncio.wait({task, told}, timeout=_GRACE_S)
    finally:
        for left in (task, told):
            if not left.done():
                left.cancel()
                _LOG.warning("the provider of %s does not stop", command.name, extra={"RUN": context.run_id})
            elif not left.cancelled() and (error := left.exception()) and not isinstance(error, FamulusError):
                _LOG.warning("the provider of %s failed to stop: %s", command.name, type(error).__name__)


def _error(error: FamulusError) -> Outcome:
    return Outcome(error=OutcomeError(code=error.code, message=error.message))
