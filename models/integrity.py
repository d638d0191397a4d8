"""Whether a file is whole: what was promised of it, reading and writing it in full, remembering what was seen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..core.errors import Failed
from .catalogue import ModelFile
from .progress import Progress

PART = ".part"  # the suffix of what is not whole yet

_CHUNK = 1 << 20


class Pin(BaseModel):
    """What the content of a file must be, or is; ``size`` in bytes."""

    model_config = ConfigDict(frozen=True)

    sha256: str
    size: int


class Seen(Pin):
    """What a file was when it was last read in full; ``size`` and ``mtime_ns`` tell whether it is still the same."""

    mtime_ns: int


_SEEN = TypeAdapter(dict[str, Seen])
_PINS = TypeAdapter(dict[str, Pin])


def load_records(path: Path) -> dict[str, Seen]:
    """The record at ``path`` by file name; empty when there is none that can be read."""
    try:
        return _SEEN.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def load_pins(path: Path) -> dict[str, Pin]:
    """The pins at ``path`` by file name; empty without the file. Raises ``Failed`` for one that is unreadable.

    Pins are a promise, not a cache: what cannot be read must not pass for "nothing was promised".
    """
    try:
        return _PINS.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError):
        raise Failed(
            f"{path}, which holds hashes, cannot be read; remove it, and the next pull writes it anew."
        ) from None


def add_records(path: Path, seen: Mapping[str, Seen]) -> None:
    """Merge ``seen`` into the record at ``path``."""
    _write(path, {**load_records(path), **seen})


def add_pins(path: Path, pins: Mapping[str, Pin]) -> None:
    """Merge ``pins`` into those at ``path``."""
    _write(path, {**load_pins(path), **pins})


def _write(path: Path, records: Mapping[str, Pin]) -> None:
    replace_text(path, json.dumps({name: record.model_dump() for name, record in records.items()}, indent=1) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old one or the new one, also after a power cut."""
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    with part.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)


def promise(file: ModelFile, pins: Mapping[str, Pin]) -> Pin | None:
    """What the file must be: what the catalogue says, else what was pinned; None before the first pull."""
    return Pin(sha256=file.sha256, size=file.size) if file.sha256 else pins.get(file.name)


def is_whole(promised: Pin | None, seen: Pin) -> bool:
    """Whether what was seen is what was promised; so it is where nothing was."""
    return promised is None or (promised.size, promised.sha256) == (seen.size, seen.sha256)


def check_whole(filename: str, promised: Pin | None, got: Pin) -> None:
    """Raise ``Failed`` that says how ``got`` is not what was promised."""
    if promised is None or is_whole(promised, got):
        return
    if got.size > promised.size:
        raise Failed(f"{filename} is longer than the {promised.size} bytes it should have; it was dropped.")
    if got.size < promised.size:
        raise Failed(f"{filename} ended after {got.size} of {promised.size} bytes; pull again.")
    raise Failed(
        f"{filename} is not what was promised (its sha256 is {got.sha256}, not {promised.sha256}); it was dropped."
    )


def is_unchanged(path: Path, seen: Seen) -> bool:
    """Whether the file at ``path`` is still the one that was seen."""
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (seen.size, seen.mtime_ns)


def read_in_full(path: Path) -> Seen | None:
    """Hash the file at ``path``; ``None`` without one. Raises ``Failed`` when it cannot be read."""
    try:
        with path.open("rb") as content:
            digest = hashlib.sha256()
            while chunk := content.read(_CHUNK):
                digest.update(chunk)
            stat = os.fstat(content.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(f"{path} cannot be read ({error.strerror}); check its permissions.") from None
    return Seen(sha256=digest.hexdigest(), size=stat.st_size, mtime_ns=stat.st_mtime_ns)


def write_whole(path: Path, promised: Pin | None, chunks: Iterator[bytes], progress: Progress) -> Pin:
    """Write ``chunks`` to ``path``, all the way to the disk; raises ``Failed`` when they are not what was promised."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            if promised is not None and size > promised.size:
                break
            digest.update(chunk)
            out.write(chunk)
            progress.update(size)
        out.flush()
        os.fsync(out.fileno())
    got = Pin(sha256=digest.hexdigest(), size=size)
    check_whole(path.name, promised, got)
    return got


def sync_folder(folder: Path) -> None:
    """Bring renames in ``folder`` to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
