"""An engine on a thread of this process: for tests, and for boards with no room for a second interpreter."""

from __future__ import annotations

import asyncio
from typing import Any

from .events import Event, Loaded
from .host import Host
from .memory import rss_of
from .runner import Runner


class InProcessHost(Host):
    """The same behaviour as a worker process, but a stuck engine can only be left behind, not ended."""

    _runner: Runner
    _loop: asyncio.AbstractEventLoop
    _rss_before = 0
    _rss = 0

    def rss_bytes(self) -> int:
        """How much this process grew by the load."""
        return 0 if self.exited.is_set() else self._rss

    def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rss_before = rss_of("self")
        self._runner = Runner(self._emit)
        self._runner.start(self.engine, self.options)

    def _emit(self, event: Event) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, event)
        except RuntimeError:
            return  # the loop is closed: nobody waits

    def _deliver(self, event: Event) -> None:
        if self.exited.is_set():
            return  # from a thread that was left behind
        if isinstance(event, Loaded):
            self._rss = max(0, rss_of("self") - self._rss_before)
        super()._deliver(event)

    def _post_call(self, number: int, method: str, args: tuple[Any, ...]) -> None:
        self._runner.submit(number, method, args)

    def _post_cancel(self, number: int) -> None:
        self._runner.cancel(number)

    def _post_close(self) -> None:
        self._runner.close()

    def _destroy(self) -> None:
        self._runner.abandon()  # the thread closes the engine and ends when its call returns
        self._finish(self._reason)
