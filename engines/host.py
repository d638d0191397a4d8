"""One engine somewhere else, seen from the event loop: what a process and a thread have in common as hosts."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any

from ..core.errors import FamulusError, ModelUnavailable, TimedOut, error_from_code
from .events import Done, Ended, Event, Loaded, Piece, Refused

_LOG = logging.getLogger(__name__)

CANCEL_GRACE_S = 0.1  # design budget: a cancel reaches a running decode in this time, else the worker is killed
KILL_WAIT_S = 1.0  # a killed process is gone within milliseconds, unless it waits for a broken disk


class _Request:
    def __init__(self) -> None:
        self.events: asyncio.Queue[Piece | Done | FamulusError] = asyncio.Queue()


class Host(ABC):
    """Loads one engine, passes requests to it and knows when it is gone.

    ``start`` may be awaited once. A request that its caller abandons (by cancelling the task, closing the stream
    or passing the deadline) is cancelled in the engine; when the engine has not ended it after ``cancel_grace_s``
    the host kills itself. Once ``exited`` is set, all memory that can be given back is given back.
    """

    def __init__(
        self, engine: str, options: dict[str, Any], *, name: str = "", cancel_grace_s: float = CANCEL_GRACE_S
    ) -> None:
        self.engine = engine
        self.options = options
        self.name = name or engine
        self.exited = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None  # called when the host has settled or exited
        self._cancel_grace_s = cancel_grace_s
        self._loaded: asyncio.Future[None] | None = None
        self._requests: dict[int, _Request] = {}
        self._settling: dict[int, asyncio.TimerHandle] = {}
        self._last_id = 0
        self._reason = ""

    @property
    def pid(self) -> int | None:
        """The worker's process id; None when the engine runs in this process."""
        return None

    @property
    def alive(self) -> bool:
        """Whether requests can be made: loaded, and neither exited nor about to."""
        return self._loaded is not None and self._loaded.done() and not self._reason

    @property
    def settling(self) -> bool:
        """Whether the engine still works on a request that nobody waits for."""
        return bool(self._settling)

    @property
    def exit_reason(self) -> str:
        """Why the host is gone or about to be; empty while it lives."""
        return self._reason

    @abstractmethod
    def rss_bytes(self) -> int:
        """Resident memory that the engine accounts for; 0 when it is gone."""

    async def start(self, *, timeout_s: float) -> None:
        """Load the engine; raises ``ModelUnavailable`` or what the engine raised, and the host is then ending."""
        self._loaded = asyncio.get_running_loop().create_future()
        try:
            self._open()
            async with asyncio.timeout(timeout_s):
                await self._loaded
        except TimeoutError:
            self._abort(f"it had not loaded after {timeout_s:g} s")
            raise ModelUnavailable(
                f"{self.name} had not loaded after {timeout_s:g} s; try again, or choose a smaller model."
            ) from None
        except OSError as error:
            self._loaded.cancel()
            self._finish("its worker could not be started")
            raise ModelUnavailable(f"The worker of {self.name} could not be started ({error}); try again.") from error
        except BaseException:
            self._loaded.cancel()
            self._abort("its load was given up")
            raise

    async def call(self, method: str, *args: Any, timeout_s: float) -> Any:
        """The result of one request to the engine; raises what the engine raised, or ``TimedOut``."""
        stream = self._exchange(method, args, timeout_s)
        try:
            async for value in stream:
                return value
        finally:
            await stream.aclose()

    async def stream(self, method: str, *args: Any, timeout_s: float) -> AsyncGenerator[Any, None]:
        """The items of one request as they come; ``timeout_s`` bounds the whole of it."""
        stream = self._exchange(method, args, timeout_s)
        try:
            async for piece in stream:
                yield piece
        finally:
            await stream.aclose()

    def cancel_all(self) -> None:
        """Cancel every request; whoever still waits for one gets ``Cancelled`` or ``ModelUnavailable``."""
        for number in list(self._requests):
            self._cancel(number)

    async def close(self, *, grace_s: float = 0.5) -> None:
        """Let the engine close itself, and kill it when that takes longer than ``grace_s``."""
        if not self.alive:
            await self.kill()
            return
        if self._settling:
            grace_s = min(grace_s, self._cancel_grace_s)
        self._reason = "it was unloaded"
        self._fail_requests()
        self._post_close()
        try:
            async with asyncio.timeout(grace_s):
                await self.exited.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self, reason: str = "it was killed") -> None:
        """End the engine at once; returns when it is gone, or after a second at most."""
        if self._loaded is None or self.exited.is_set():
            return
        self._abort(reason)
        try:
            async with asyncio.timeout(KILL_WAIT_S):
                await self.exited.wait()
        except TimeoutError:
            _LOG.warning("%s (process %s) cannot be ended", self.name, self.pid)

    @abstractmethod
    def _open(self) -> None:
        """Begin to load; ``Loaded`` or ``Refused`` is delivered later."""

    @abstractmethod
    def _post_call(self, number: int, method: str, args: tuple[Any, ...]) -> None: ...

    @abstractmethod
    def _post_cancel(self, number: int) -> None: ...

    @abstractmethod
    def _post_close(self) -> None: ...

    @abstractmethod
    def _destroy(self) -> None:
        """End the engine without asking; :meth:`_finish` is called once it is gone."""

    def _deliver(self, event: Event) -> None:
        match event:
            case Loaded():
                if self._loaded and not self._loaded.done():
                    self._loaded.set_result(None)
            case Refused(id=0, code=code, message=message):
                if self._loaded and not self._loaded.done():
                    self._loaded.set_exception(error_from_code(code, message))
            case Ended(reason=reason):
                self._finish(reason)
            case Piece(id=number):
                if request := self._requests.get(number):
                    request.events.put_nowait(event)
            case Done(id=number):
                self._end(number, event)
            case Refused(id=number, code=code, message=message):
                self._end(number, error_from_code(code, message))

    def _end(self, number: int, outcome: Done | FamulusError) -> None:
        if request := self._requests.pop(number, None):
            request.events.put_nowait(outcome)
        if timer := self._settling.pop(number, None):
            timer.cancel()
            self.on_change()

    async def _exchange(self, method: str, args: tuple[Any, ...], timeout_s: float) -> AsyncGenerator[Any, None]:
        """Yield the pieces of a request, then its result if it has one."""
        if not self.alive:
            raise self._gone()
        self._last_id += 1
        number = self._last_id
        self._post_call(number, method, args)
        request = self._requests[number] = _Request()
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                try:
                    async with asyncio.timeout(deadline - time.monotonic()):
                        event = await request.events.get()
                except TimeoutError:
                    raise TimedOut(
                        f"{self.name} did not finish in {timeout_s:g} s; try again, or ask for less."
                    ) from None
                match event:
                    case Piece(value=value):
                        yield value
                    case Done(value=value):
                        if value is not None:
                            yield value
                        return
                    case error:
                        raise error
        finally:
            if number in self._requests:
                self._cancel(number)
                self._requests.pop(number, None)

    def _cancel(self, number: int) -> None:
        if self._reason or number in self._settling:
            return
        loop = asyncio.get_running_loop()
        reason = f"it did not stop within {self._cancel_grace_s * 1000:.0f} ms of a cancel"
        self._settling[number] = loop.call_later(self._cancel_grace_s, self._abort, reason)
        self._post_cancel(number)

    def _abort(self, reason: str) -> None:
        if not self.exited.is_set():
            self._reason = self._reason or reason
            self._fail_requests()
            self._destroy()

    def _finish(self, reason: str) -> None:
        """The engine is gone: fail what waits for it and tell whoever watches."""
        if self.exited.is_set():
            return
        self._reason = self._reason or reason
        self._fail_requests()
        if self._loaded and not self._loaded.done():
            self._loaded.set_exception(self._gone())
        self.exited.set()
        self.on_change()

    def _fail_requests(self) -> None:
        for timer in self._settling.values():
            timer.cancel()
        self._settling.clear()
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.events.put_nowait(self._gone())

    def _gone(self) -> ModelUnavailable:
        return ModelUnavailable(f"The engine of {self.name} is gone: {self._reason or 'it was not loaded'}; try again.")
