"""Whether a file is whole: reading it in full, writing it so that it is, and remembering what was seen."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..core.errors import Failed
from .catalogue import ModelFile
from .progress import Progress

PART = ".part"  # the suffix of what is not whole yet

_CHUNK = 1 << 20


class Seen(BaseModel):
    """What a file was when it was last read in full; ``size`` and ``mtime_ns`` tell whether it is still the same."""

    model_config = ConfigDict(frozen=True)

    sha256: str
    size: int
    mtime_ns: int


_RECORDS = TypeAdapter(dict[str, Seen])


def load_records(path: Path) -> dict[str, Seen]:
    """The record at ``path`` by file name; empty when there is none that can be read."""
    try:
        return _RECORDS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def add_records(path: Path, seen: dict[str, Seen]) -> None:
    """Merge ``seen`` into the record at ``path``."""
    records = {name: record.model_dump() for name, record in {**load_records(path), **seen}.items()}
    part = path.with_suffix(f".{os.getpid()}{PART}")
    part.write_text(json.dumps(records, indent=1) + "\n")
    part.replace(path)


def is_whole(file: ModelFile, seen: Seen) -> bool:
    """Whether what was seen is what the catalogue promises."""
    return seen.size == file.size and seen.sha256 == file.sha256


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


def write_whole(path: Path, file: ModelFile, chunks: Iterator[bytes], progress: Progress) -> Seen:
    """Write ``chunks`` beside ``path`` and rename only when size and hash are right and the bytes are on the disk."""
    part = path.with_name(path.name + PART)
    digest, size = hashlib.sha256(), 0
    with part.open("wb") as out:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise Failed(f"{file.filename} is longer than the {file.size} bytes it should have; it was dropped.")
            digest.update(chunk)
            out.write(chunk)
            progress.update(size)
        if size < file.size:
            raise Failed(f"{file.filename} ended after {size} of {file.size} bytes; pull again.")
        if digest.hexdigest() != file.sha256:
            raise Failed(
                f"{file.filename} is not what the catalogue promises (sha256 {digest.hexdigest()}); it was dropped."
            )
        out.flush()
        os.fsync(out.fileno())
        mtime_ns = os.fstat(out.fileno()).st_mtime_ns
    part.replace(path)
    _sync_folder(path.parent)
    return Seen(sha256=file.sha256, size=size, mtime_ns=mtime_ns)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
