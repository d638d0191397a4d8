"""The thread on which one engine lives: it loads it, serves one request at a time and reports events."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from ..core.errors import Cancelled, Failed, FamulusError, InvalidArguments, ModelUnavailable
from .events import Done, Ended, Event, Loaded, Piece, Refused
from .kinds import METHODS, construct

_LOG = logging.getLogger(__name__)


class _Job:
    """One request: an engine polls ``cancelled`` or asks to be called back."""

    def __init__(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        self.number = number
        self.method = method
        self.args = args
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def on_cancel(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _LOG.debug("%s: the engine's cancel callback failed", self.method, exc_info=True)


class Runner:
    """Serves one engine on a thread of its own; ``emit`` is called on that thread with each event.

    The thread is a daemon thread: native code that never returns must not keep a process alive.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._jobs: dict[int, _Job] = {}
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    def start(self, engine: str, options: dict[str, Any]) -> None:
        """Begin to load; ``Loaded``, or ``Refused`` with id 0 and then ``Ended``, follows."""
        threading.Thread(target=self._run, args=(engine, options), name="engine", daemon=True).start()

    def submit(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        """Queue a request; any number of ``Piece`` and then ``Done`` or ``Refused`` with its id follow."""
        job = self._jobs[number] = _Job(number, method, args)
        self._queue.put(job)

    def cancel(self, number: int) -> None:
        """Tell a request to stop; an unknown or finished one is left alone."""
        if job := self._jobs.get(number):
            job.cancel()

    def close(self) -> None:
        """Close the engine after the requests before it; ``Ended`` follows."""
        self._queue.put(None)

    def abandon(self) -> None:
        """Cancel what runs and waits, then close."""
        for job in list(self._jobs.values()):
            job.cancel()
        self.close()

    def _run(self, engine_name: str, options: dict[str, Any]) -> None:
        try:
            engine = self._load(engine_name, options)
            if engine is not None:
                self._emit(Loaded())
                while (job := self._queue.get()) is not None:
                    self._serve(engine, job)
                engine.close()
            self._emit(Ended("closed"))
        except SystemExit as error:
            self._emit(Ended(f"the engine exited with {error.code}"))
        except BaseException as error:
            _LOG.debug("The engine's thread broke", exc_info=True)
            self._emit(Ended(f"the engine broke with {type(error).__name__}"))

    def _load(self, engine: str, options: dict[str, Any]) -> Any:
        try:
            return construct(engine, options)
        except FamulusError as error:
            self._emit(Refused(0, error.code, error.message))
        except Exception as error:
            _LOG.debug("The engine %s failed to load", engine, exc_info=True)
            reason = " ".join(str(error).split())[:300]
            message = f"The engine {engine} could not load its model: {type(error).__name__}: {reason}"
            self._emit(Refused(0, ModelUnavailable.code, message))
        return None

    def _serve(self, engine: Any, job: _Job) -> None:
        try:
            event: Done | Refused = Done(job.number, self._invoke(engine, job))
        except FamulusError as error:
            event = Refused(job.number, error.code, error.message)
        except Exception as error:
            # Only the type is told: the text of a foreign exception could hold what a person said.
            _LOG.debug("%s failed", job.method, exc_info=True)
            message = f"The engine failed in {job.method} with {type(error).__name__}; its debug log has the details."
            event = Refused(job.number, Failed.code, message)
        self._jobs.pop(job.number, None)
        try:
            self._emit(event)
        except InvalidArguments as error:  # a result that cannot travel
            self._emit(Refused(job.number, Failed.code, error.message))

    def _invoke(self, engine: Any, job: _Job) -> Any:
        method = getattr(engine, job.method, None) if job.method in METHODS else None
        if method is None:
            raise InvalidArguments(f"This engine has no {job.method}; ask one of another kind.")
        if job.cancelled:
            raise Cancelled("The request was cancelled before it began.")
        if not METHODS[job.method]:
            return method(*job.args, job)
        stream = method(*job.args, job)
        try:
            for piece in stream:
                if job.cancelled:
                    raise Cancelled("The request was cancelled.")
                self._emit(Piece(job.number, piece))
        finally:
            if close := getattr(stream, "close", None):
                close()
        return None
