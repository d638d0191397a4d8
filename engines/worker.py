"""The process that hosts one engine: ``python -m famulus.engines.worker FD``, FD being its end of the wire.

The main thread only reads, so a cancel reaches a running decode at once; the engine has a thread of its own.
The process ends when the wire does, whatever the engine is doing, and the kernel ends it with the daemon.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

from .events import Ended, Event, to_message
from .runner import Runner
from .wire import EndOfStream, Message, WireError, encode, receive, unpack

OOM_SCORE_STEP = 500
_PR_SET_PDEATHSIG = 1
_LOG = logging.getLogger(__name__)


def raise_oom_score(step: int = OOM_SCORE_STEP, proc: Path = Path("/proc")) -> None:
    """Make the kernel's OOM killer prefer this process; where that is not permitted, nothing changes."""
    path = proc / "self/oom_score_adj"
    try:
        path.write_text(str(min(int(path.read_text()) + step, 1000)))
    except (OSError, ValueError) as error:
        _LOG.debug("oom_score_adj stays as it is: %s", error)


def die_with_parent() -> None:
    """Have the kernel kill this process when the daemon is gone; the closed wire would end it a little later."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def serve(sock: socket.socket) -> NoReturn:
    """Host one engine until the wire ends or the engine does."""
    lock = threading.Lock()

    def emit(event: Event) -> None:
        if isinstance(event, Ended):
            _exit(0 if event.reason == "closed" else 1, event.reason)
        frame = encode(to_message(event))
        try:
            with lock:
                sock.sendall(frame)
        except OSError:
            _exit(0, "the wire was closed")

    runner = Runner(emit)
    try:
        while True:
            _handle(runner, receive(sock))
    except EndOfStream:
        _exit(0, "the wire was closed")
    except (WireError, LookupError, TypeError, ValueError) as error:
        _exit(2, f"garbage on the wire: {error}")


def _handle(runner: Runner, message: Message) -> None:
    match message.kind:
        case "load":
            logging.getLogger().setLevel(int(message.fields["log_level"]))
            runner.start(str(message.fields["engine"]), dict(message.fields["options"]))
        case "call":
            args = unpack(message.fields["values"], message.payload)
            runner.submit(message.id, str(message.fields["method"]), args)
        case "cancel":
            runner.cancel(message.id)
        case "close":
            runner.close()
        case _:
            raise WireError("A message of an unknown kind came over the wire.")


def _exit(code: int, reason: str) -> NoReturn:
    # Not sys.exit: the other thread may be in native code for long, and nothing here needs cleaning up.
    if code:
        sys.stderr.write(reason + "\n")
        sys.stderr.flush()
    os._exit(code)


def main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the daemon's business
    die_with_parent()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    raise_oom_score()
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
