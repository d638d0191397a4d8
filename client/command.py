"""A function as a command: its manifest, and running it for one call."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import Failed, FamulusError, InvalidArguments
from .schema import optional_parameters, parameters_of

_LOG = logging.getLogger(__name__)
MAX_OUTCOME_BYTES = 256 * 1024
_MAX_SAY = 4000

Template = str | tuple[str, dict[str, Any]]
"""A sentence or an example: its text, or its text and the arguments that it means."""


@dataclass(frozen=True)
class Say:
    """A result with both words to say and data."""

    text: str
    data: Any = None


@dataclass(frozen=True)
class Command:
    """A function that famulus may call, and what the manifest says of it."""

    function: Callable[..., Any]
    manifest: dict[str, Any]
    optional: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    async def invoke(self, args_json: str) -> str:
        """Run the function and give its outcome as JSON; whatever it raises becomes the outcome's error.

        A function that is not asynchronous runs in a thread. It cannot be stopped there, only left behind.
        """
        try:
            return _outcome(await self._run(_arguments(args_json)), self.name)
        except FamulusError as error:
            return _failure(error)
        except Exception:
            _LOG.exception("%s failed", self.name)
            return _failure(Failed(f"{self.name} failed inside its app; the app's log tells why."))

    async def _run(self, args: dict[str, Any]) -> Any:
        args = {**dict.fromkeys(self.optional), **args}
        try:
            inspect.signature(self.function).bind(**args)
        except TypeError as error:
            raise InvalidArguments(f"{self.name} does not take these arguments: {error}.") from None
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**args)
        return await _in_thread(lambda: self.function(**args))


def make_command(
    function: Callable[..., Any],
    name: str,
    description: str,
    *,
    sentences: Mapping[str, Sequence[Template]],
    examples: Sequence[Template],
    more: Mapping[str, Any],
) -> Command:
    """Raises ``InvalidArguments`` where the function's signature cannot be a command's parameters."""
    description = description or inspect.cleandoc(function.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    if not description:
        raise InvalidArguments(f"The command {name} needs a description or its function a docstring.")
    manifest = {
        "name": name,
        "description": description,
        "parameters": parameters_of(function),
        "sentences": {language: [_template(entry) for entry in entries] for language, entries in sentences.items()},
        "examples": [_example(entry) for entry in examples],
        **more,
    }
    return Command(function, manifest, optional_parameters(function))


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Like ``asyncio.to_thread``, but a function that never returns does not keep the program from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = work()
        except StopIteration as error:  # no future takes it
            failure = RuntimeError(str(error))
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True).start()
    return await future


def _arguments(args_json: str) -> dict[str, Any]:
    try:
        args = json.loads(args_json)
    except (ValueError, RecursionError):
        raise InvalidArguments("The arguments are not JSON.") from None
    if not isinstance(args, dict):
        raise InvalidArguments("The arguments must be a JSON object.")
    return args


def _outcome(result: Any, name: str) -> str:
    match result:
        case str():
            outcome = {"say": result[:_MAX_SAY]}
        case Say():
            outcome = {"say": result.text[:_MAX_SAY], "data": result.data}
        case _:
            outcome = {"data": result}
    try:
        text = _dumps(outcome)
    except (TypeError, ValueError, RecursionError):
        _LOG.exception("%s gave a result that is not JSON", name)
        raise Failed(f"{name} gave a result that cannot be sent; its app should return JSON values.") from None
    if len(text) > MAX_OUTCOME_BYTES:
        raise Failed(f"{name} gave more than {MAX_OUTCOME_BYTES // 1024} KB; its app should return less.")
    return text


def _failure(error: FamulusError) -> str:
    return _dumps({"error": {"code": error.code, "message": error.message[:_MAX_SAY]}})


def _dumps(value: Any) -> str:
    # In ASCII, JSON escapes what a D-Bus string may not hold: NUL and lone surrogates.
    return json.dumps(value, allow_nan=False)


def _template(entry: Template) -> dict[str, Any]:
    text, args = (entry, {}) if isinstance(entry, str) else entry
    return {"text": text, "args": args}


def _example(entry: Template) -> dict[str, Any]:
    template = _template(entry)
    chinese = any("\u4e00" <= c <= "\u9fff" for c in template["text"])
    return {**template, "language": "zh" if chinese else "en"}
