"""The process around the app: logs, readiness for systemd, and the signals that end or reload it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
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
    """SIGTERM and SIGINT end the service; SIGHUP calls ``reload``, on a thread, and tells systemd before and after."""

    def __init__(self, reload: Callable[[], None]) -> None:
        self._stop = asyncio.Event()
        self._reload = reload
        self._reloading: asyncio.Task[None] | None = None
        self._again = False

    def install(self) -> None:
        """Take the signals of this process; needs a running loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._on_reload)

    async def wait(self) -> None:
        """Until someone asks the service to end."""
        await self._stop.wait()

    def _on_reload(self) -> None:
        self._again = True  # what changed while a reload reads is read once more
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._reload_now(), name="reload")

    async def _reload_now(self) -> None:
        while self._again:
            self._again = False
            await notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            try:
                await asyncio.to_thread(self._reload)
            except Exception:
                _LOG.exception("The reload failed; the settings before it hold on.")
            finally:
                await notify("READY=1")


async def feed_watchdog(progress: Callable[[], int] | None) -> None:
    """Ping systemd at half its deadline for ever; return at once where it asked for no pings.

    The loop proves itself by running this. ``progress`` counts what another thread has done: while it stands still
    no ping is sent, and systemd starts the service anew. None where there is no such thread.
    """
    deadline_s = watchdog_s()
    if deadline_s is None:
        return
    await notify("WATCHDOG=1")
    done = progress() if progress else 0
    pause_s = deadline_s / 2
    while True:
        await asyncio.sleep(pause_s)
        now = progress() if progress else done + 1
        if now == done:
            if pause_s == deadline_s / 2:
                _LOG.error("The microphone's thread stands still; systemd starts the service anew if it stays so.")
            pause_s = deadline_s / 20  # the ping must not come late once it moves again
            continue
        done, pause_s = now, deadline_s / 2
        await notify("WATCHDOG=1")


def watchdog_s() -> float | None:
    """Seconds within which systemd wants a ping from this process; None where it wants none."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for the process that started this one
    usec = os.environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1e6 if usec.isdecimal() and int(usec) > 0 else None
