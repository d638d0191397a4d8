"""The process around the app: logs, readiness for systemd, and the signals that end or reload it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def set_up_logging(level: str) -> None:
    """To the journal when systemd started us, else to stderr. Only DEBUG may hold what people say."""
    root = logging.getLogger()
    for handler in tuple(root.handlers):
        root.removeHandler(handler)
    root.addHandler(_handler())
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _handler() -> logging.Handler:
    if "JOURNAL_STREAM" in os.environ:
        from systemd.journal import JournalHandler

        handler: logging.Handler = JournalHandler(SYSLOG_IDENTIFIER="famulusd")
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        return handler
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    return handler


async def notify(message: str) -> None:
    """Tell systemd, when it listens (``READY=1``, ``STATUS=…``). In a thread: the call holds up its caller."""
    if "NOTIFY_SOCKET" in os.environ:
        import systemd.daemon

        await asyncio.to_thread(systemd.daemon.notify, message)


class Signals:
    """SIGTERM and SIGINT end the service; SIGHUP reloads it."""

    def __init__(self, reload: Callable[[], None]) -> None:
        self._stop = asyncio.Event()
        self._reload = reload

    def install(self) -> None:
        """Take the signals of this process; needs a running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    async def wait(self) -> None:
        """Until someone asks the service to end."""
        await self._stop.wait()
