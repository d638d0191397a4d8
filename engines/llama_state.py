"""Prefix states of a language model on disk, so that no prompt prefix is ever read twice by the same model."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_LOG = logging.getLogger(__name__)

_MAGIC = b"famulus-state-1\n"
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_STALE_S = 3600.0  # a temporary file older than this was left by a process that died

Buffer = bytes | bytearray | memoryview


def state_key(parts: Sequence[object]) -> str:
    """A name for a state from everything it depends on; each part must have a faithful ``repr``."""
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()


class StateStore:
    """Opaque states by key in one folder of bounded size; the least recently used go first.

    A file is ``famulus-state-1``, the SHA-256 of key and content, and the content. It is written under another name
    and moved into place. A file that is truncated, damaged or another key's is removed and counts as absent: llama.cpp
    aborts on a short state and accepts a foreign one, so nothing unchecked may reach it. Trouble with the disk is
    logged and never raised: a state is only ever a shortcut.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit = limit_bytes

    def load(self, key: str) -> bytearray | None:
        """The state saved under ``key``, else ``None``."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER)
                content = bytearray(os.fstat(file.fileno()).st_size - len(header))
                whole = file.readinto(content) == len(content)
        except FileNotFoundError:
            return None
        except OSError as error:
            _LOG.warning("the prefix state %s cannot be read: %s", path, error)
            return None
        if not whole or not content or header != _MAGIC + _digest(key, content):
            _LOG.warning("the prefix state %s is damaged and was removed", path)
            self.remove(key)
            return None
        with suppress(OSError):
            os.utime(path)  # marks it as recently used
        return content

    def save(self, key: str, content: Buffer) -> bool:
        """Keep ``content`` under ``key``; ``False`` if it could not be."""
        path = self._path(key)
        if _HEADER + len(content) > self._limit:
            _LOG.warning(
                "a prefix state of %d bytes is over the limit of %d and is not kept", len(content), self._limit
            )
            return False
        scratch = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(_HEADER + len(content), keep=path)
            with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(_MAGIC + _digest(key, content))
                file.write(content)
            scratch.replace(path)
        except OSError as error:
            _LOG.warning("the prefix state %s cannot be written: %s", path, error)
            with suppress(OSError):
                scratch.unlink()
            return False
        return True

    def remove(self, key: str) -> None:
        """Forget the state, if there is one."""
        with suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key[:32]}.state"

    def _make_room(self, size: int, keep: Path) -> None:
        """Remove the oldest states, and what dead writers left, until ``size`` more bytes fit."""
        for scratch in self._folder.glob("*.tmp"):
            with suppress(OSError):
                if time.time() - scratch.stat().st_mtime > _STALE_S:
                    scratch.unlink()
        found = []
        for path in self._folder.glob("*.state"):
            with suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        total = size + sum(length for _, length, path in found if path != keep)
        for _, length, path in sorted(found):
            if total <= self._limit:
                return
            if path != keep:
                with suppress(OSError):
                    path.unlink()
                    total -= length


def _digest(key: str, content: Buffer) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(content)
    return digest.digest()
