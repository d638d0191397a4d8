"""Calls into native code that may never come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ...core.errors import Failed

T = TypeVar("T")

_SLICE_S = 0.05


class _Call(Generic[T]):
    def __init__(self, function: Callable[[], T], discard: Callable[[T], object]) -> None:
        self._function = function
        self._discard = discard
        self._lock = threading.Lock()
        self._returned = False
        self._abandoned = False
        self.done = threading.Event()
        self.result: T | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            result = self._function()
        except Exception as error:
            self.error = error
        else:
            with self._lock:
                self.result = result
                self._returned = True
                unwanted = self._abandoned
            if unwanted:
                self._discard(result)
        self.done.set()

    def abandon(self) -> bool:
        """Nobody waits any more; False when the result came at the last moment."""
        with self._lock:
            self._abandoned = not self._returned
            return self._abandoned


class BoundedCaller:
    """Makes one call at a time on a thread of its own, so that a hung sound server cannot hang the caller."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: threading.Thread | None = None

    def call(
        self,
        function: Callable[[], T],
        *,
        timeout_s: float,
        discard: Callable[[T], object],
        stop: threading.Event | None = None,
    ) -> T:
        """The result of ``function()``, or its exception.

        Raises ``Failed`` after ``timeout_s``, once ``stop`` is set, or while an earlier call still hangs. A
        result that comes too late goes to ``discard``, on the other thread.
        """
        deadline = time.monotonic() + timeout_s

        def give_up() -> bool:
            return time.monotonic() >= deadline or (stop is not None and stop.is_set())

        while self._running is not None and self._running.is_alive():
            if give_up():
                raise _hung()
            self._running.join(_SLICE_S)
        call = _Call(function, discard)
        self._running = threading.Thread(target=call.run, name=self._name, daemon=True)
        self._running.start()
        while not call.done.wait(_SLICE_S):
            if give_up() and call.abandon():
                raise _hung()
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]  # T may be None itself


def _hung() -> Failed:
    return Failed("The sound system does not answer; restart the sound server or replug the device.")
