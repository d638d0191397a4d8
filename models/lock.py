"""One process at a time works on a model's folder."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import TimedOut
from .progress import Progress

_POLL_S = 0.2


@contextmanager
def exclusive(path: Path, *, wait_s: float, what: str, progress: Progress) -> Iterator[None]:
    """Hold the lock file ``path``; wait at most ``wait_s`` seconds for another process, then raise ``TimedOut``.

    The kernel drops the lock with its process, so a killed one leaves nothing to clean up.
    """
    deadline = time.monotonic() + wait_s
    told = False
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimedOut(
                        f"Another process still holds {what} after {wait_s:.0f} s; try again when it has finished."
                    ) from None
                if not told:
                    progress.say(f"Another process is fetching {what}; waiting for it.")
                    told = True
            time.sleep(_POLL_S)
        yield
