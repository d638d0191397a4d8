"""A download that outlives its interruptions: a ``.part`` that grows, what it belongs to beside it, a hash at the end.

The part is resumed with Range and If-Range, so a server that changed the file, or that knows no ranges, starts it
over. The bytes that are there are hashed again on each resume; only what was synced to the disk counts as there.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from ..core.errors import Failed, ModelUnavailable, TimedOut
from .http import Lost, OutOfRange, get, lost
from .integrity import PART, Pin, check_whole, is_whole, replace_text
from .progress import Progress, human_size

TICKET = ".json"  # after PART: what a part belongs to

_CHUNK = 1 << 18
_SIZE_TOLERANCE = 0.25  # between an approximate size of the catalogue and the server's


@dataclass(frozen=True)
class Patience:
    """How long a download puts up with a bad network. Seconds and bytes.

    A try that brings at least ``step`` bytes makes the count of failures begin anew; ``most_tries`` and
    ``give_up_s`` (without such a step) hold all the same. Before the first byte, ``first_tries`` are enough.
    """

    silence_s: float = 30.0
    tries: int = 6
    first_tries: int = 3
    most_tries: int = 100
    step: int = 1 << 20
    give_up_s: float = 900.0
    backoff_s: float = 1.0
    longest_backoff_s: float = 60.0
    stall_s: float = 60.0
    stall_bytes: int = 1 << 16  # fewer than these in ``stall_s`` are no progress
    sync_bytes: int = 8 << 20


class _Ticket(BaseModel):
    model_config = ConfigDict(frozen=True)

    url: str
    sha256: str
    validator: str = ""  # a strong ETag or a Last-Modified
    total: int | None = None
    synced: int = 0


class Download:
    """One file on its way into ``part``. ``url`` names it, ``address`` is who is asked (a mirror's, perhaps).

    ``promised`` is what it must be; where nothing is promised, ``about`` is roughly its size in bytes.
    """

    def __init__(
        self,
        url: str,
        address: str,
        part: Path,
        *,
        promised: Pin | None,
        about: int,
        label: str,
        progress: Progress,
        patience: Patience,
    ) -> None:
        self._address = address
        self._part = part
        self._promised = promised
        self._about = about
        self._label = label
        self._progress = progress
        self._patience = patience
        self._fresh = _Ticket(url=url, sha256=promised.sha256 if promised else "")
        self._ticket = self._fresh
        self._digest = hashlib.sha256()
        self._have = 0
        self._received = 0
        self._shown = 0
        self._pieced = False  # whether more than one response made what is there

    def run(self) -> Pin:
        """Fetch what is missing; the part is then whole. Raises ``ModelUnavailable``, ``TimedOut`` or ``Failed``.

        After a failure or an interruption the part stays for the next run, unless its content is wrong or the
        disk is full.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with os.fdopen(os.open(self._part, flags, 0o644), "r+b") as out:
            self._resume(out)
            self._show()
            try:
                got = self._fetch(out)
                if self._pieced and not is_whole(self._promised, got):
                    # Two sources may differ where neither tells what it serves: once more, from one of them.
                    self._start_over(out, "what was there does not fit")
                    got = self._fetch(out)
                check_whole(self._name, self._promised, got)
                self._keep(out)
            except BaseException as error:
                full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                if full or isinstance(error, Failed) or not self._have:
                    discard_part(self._part)
                else:
                    with suppress(OSError):
                        self._keep(out)
                raise
            finally:
                self._progress.finish()
        return got

    @property
    def _name(self) -> str:
        return self._part.name.removesuffix(PART)

    @property
    def _total(self) -> int:
        return self._promised.size if self._promised else self._ticket.total or self._about

    @property
    def _complete(self) -> bool:
        total = self._promised.size if self._promised else self._ticket.total
        return total is not None and self._have == total

    def _resume(self, out: BinaryIO) -> None:
        """Take up what an earlier run left, as far as it certainly reached the disk."""
        ticket = load_ticket(self._part)
        same = ticket is not None and (ticket.url, ticket.sha256) == (self._fresh.url, self._fresh.sha256)
        if ticket is None or not same or not (ticket.validator or ticket.sha256):
            out.truncate(0)
            return
        self._ticket = ticket
        while self._have < ticket.synced and (chunk := out.read(min(_CHUNK, ticket.synced - self._have))):
            self._digest.update(chunk)
            self._have += len(chunk)
        out.seek(self._have)
        out.truncate()
        if self._have:
            self._pieced = True
            self._progress.say(f"Going on with {self._label} at {human_size(self._have)}.")

    def _fetch(self, out: BinaryIO) -> Pin:
        failures, tries, last_step, mark = 0, 0, time.monotonic(), 0
        while not self._complete:
            try:
                self._try(out)
            except OutOfRange as beyond:
                if self._have and beyond.total == self._have and self._promised is None:
                    self._ticket = self._ticket.model_copy(update={"total": beyond.total})
                    continue
                problem = Lost(ModelUnavailable(f"{self._address} gives no part of the file; pull again."))
                self._start_over(out, "the server has no such part")
            except Lost as error:
                problem = error
            else:
                continue
            tries += 1
            now = time.monotonic()
            if self._received - mark >= self._patience.step:
                failures, last_step, mark = 0, now, self._received
            failures += 1
            enough = self._patience.tries if self._received else self._patience.first_tries
            wait_s = max(self._patience.backoff_s * 2.0 ** (failures - 1), problem.wait_s)
            wait_s = min(wait_s, self._patience.longest_backoff_s)
            patient = now + wait_s - last_step < self._patience.give_up_s
            if failures >= enough or tries >= self._patience.most_tries or not patient:
                raise problem.final from None
            self._progress.say(f"{problem.final.message} Trying again in {wait_s:.0f} s.")
            time.sleep(wait_s)
        return Pin(sha256=self._digest.hexdigest(), size=self._have)

    def _try(self, out: BinaryIO) -> None:
        """One request, read to its end. Raises ``Lost`` where another may help."""
        headers = {"Accept-Encoding": "identity"}
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
            if self._ticket.validator:
                headers["If-Range"] = self._ticket.validator
        with get(self._address, headers, timeout_s=self._patience.silence_s) as response:
            self._accept(response, out)
            self._read(response, out)

    def _accept(self, response: http.client.HTTPResponse, out: BinaryIO) -> None:
        """Hold the head of the response against what is there and what is promised."""
        validator = _validator(response)
        length = response.getheader("Content-Length", "")
        total: int | None = int(length) if length.isdecimal() else None
        if self._have and response.status == 206:
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.getheader("Content-Range", ""))
            if found is None or int(found[1]) != self._have or self._is_another(validator, int(found[2])):
                self._start_over(out, "the file on the server is another one now")
                raise Lost(ModelUnavailable(f"{self._address} changed while it was fetched; pull again."))
            total, self._pieced = int(found[2]), True
        self._check_head(response, total)  # before anything is given up for what it sends
        if self._have and response.status != 206:
            self._start_over(out, "the file on the server is another one now, or cannot be had in parts")
        self._ticket = self._ticket.model_copy(update={"validator": validator, "total": total})
        if self._total != self._shown:
            self._show()

    def _is_another(self, validator: str, total: int) -> bool:
        mine = self._ticket
        return (mine.total or total) != total or bool(mine.validator and validator and mine.validator != validator)

    def _check_head(self, response: http.client.HTTPResponse, total: int | None) -> None:
        if response.getheader("Content-Encoding", "identity") not in ("", "identity"):
            raise ModelUnavailable(f"{self._address} sends the file compressed, which cannot be resumed or checked.")
        if response.getheader("Content-Type", "").startswith("text/html"):
            raise ModelUnavailable(
                f"{self._address} answered with a web page instead of the file; does this network want a login?"
            )
        if self._promised is not None:
            if total not in (None, self._promised.size):
                raise ModelUnavailable(
                    f"{self._name} has {total} bytes at {self._address} and should have {self._promised.size}; it was "
                    "not fetched: see whether the catalogue or models.mirror is out of date."
                )
            return
        if total is None:
            raise ModelUnavailable(f"{self._address} does not tell the size of the file, and its hash is not known.")
        if abs(total - self._about) > _SIZE_TOLERANCE * self._about:
            raise ModelUnavailable(
                f"{self._name} has {human_size(total)} at {self._address} and about {human_size(self._about)} in the "
                "catalogue; it was not fetched, for nothing else tells whether it is the right one."
            )

    def _read(self, response: http.client.HTTPResponse, out: BinaryIO) -> None:
        patience = self._patience
        unsynced = 0
        mark_s, mark = time.monotonic(), self._received
        while True:
            try:
                chunk = response.read1(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise lost(self._address, error, patience.silence_s) from None
            if not chunk:
                break
            if self._promised is not None and self._have + len(chunk) > self._promised.size:
                raise Failed(
                    f"{self._name} is longer than the {self._promised.size} bytes it should have; it was dropped."
                )
            out.write(chunk)
            self._digest.update(chunk)
            self._have += len(chunk)
            self._received += len(chunk)
            unsynced += len(chunk)
            if unsynced >= patience.sync_bytes:
                self._keep(out)
                unsynced = 0
            self._progress.update(self._have)
            if (now := time.monotonic()) - mark_s > patience.stall_s:
                if self._received - mark < patience.stall_bytes:
                    raise Lost(TimedOut(f"{self._address} is too slow; try again later."))
                mark_s, mark = now, self._received
        if not self._complete:
            raise Lost(
                ModelUnavailable(
                    f"{self._name} ended after {self._have} of {self._total} bytes: the connection was cut; pull again."
                )
            )

    def _start_over(self, out: BinaryIO, why: str) -> None:
        self._progress.say(f"Starting {self._label} over: {why}.")
        self._ticket, self._digest, self._have, self._pieced = self._fresh, hashlib.sha256(), 0, False
        out.seek(0)
        out.truncate()
        self._show()

    def _show(self) -> None:
        self._shown = self._total
        self._progress.start(self._label, self._shown, self._have)

    def _keep(self, out: BinaryIO) -> None:
        """Bring the part to the disk, then say so in the ticket: in this order, also for a power cut."""
        out.flush()
        os.fsync(out.fileno())
        self._ticket = self._ticket.model_copy(update={"synced": self._have})
        replace_text(_ticket_path(self._part), self._ticket.model_dump_json() + "\n")


def load_ticket(part: Path) -> _Ticket | None:
    """What the part at ``part`` belongs to; None for one that cannot be resumed."""
    try:
        return _Ticket.model_validate_json(_ticket_path(part).read_bytes())
    except (OSError, ValidationError):
        return None


def discard_part(part: Path) -> None:
    """Remove a part and what was kept beside it."""
    _ticket_path(part).unlink(missing_ok=True)
    part.unlink(missing_ok=True)


def _ticket_path(part: Path) -> Path:
    return part.with_name(part.name + TICKET)


def _validator(response: http.client.HTTPResponse) -> str:
    """What If-Range may hold: a strong ETag, else a date (RFC 9110, 13.1.5)."""
    etag = response.getheader("ETag", "")
    return etag if etag.startswith('"') else response.getheader("Last-Modified", "")
