"""Where timers survive a restart: one small JSON file, replaced as a whole."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_LOG = logging.getLogger(__name__)
_MAX_BYTES = 256 * 1024


class StoredTimer(BaseModel):
    """A running timer on disk. ``due`` is in seconds since 1970, since a monotonic clock ends with the boot."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(min_length=1, max_length=40)
    seconds: int = Field(gt=0)
    due: float = Field(allow_inf_nan=False)
    label: str = Field(default="", max_length=200)
    language: str = Field(default="en", max_length=10)


class _File(BaseModel):
    version: Literal[1] = 1
    timers: tuple[StoredTimer, ...] = ()


class TimerStore:
    """Reads and writes ``timers.json`` in ``folder``. Both calls block: run them in a thread.

    A disk that cannot be written is told once in the log; timers then live in memory only.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "timers.json"
        self._told = False

    def load(self) -> tuple[StoredTimer, ...]:
        """The timers on disk; none where the file is missing or damaged (which is logged)."""
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return ()
        except OSError as error:
            _LOG.warning("timers cannot be read from %s (%s)", self._path, error.strerror)
            return ()
        try:
            return _File.model_validate_json(content[:_MAX_BYTES]).timers
        except ValidationError:
            _LOG.warning("%s is damaged; the timers in it are lost", self._path)
            return ()

    def save(self, timers: tuple[StoredTimer, ...]) -> None:
        """Replace the file, so that a loss of power leaves the old or the new one whole."""
        partial = self._path.with_suffix(".part")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # For this user only: labels are what people said.
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_File(timers=timers).model_dump_json().encode())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            if not self._told:
                self._told = True
                _LOG.warning("timers cannot be kept in %s (%s): a restart will lose them", self._path, error.strerror)
