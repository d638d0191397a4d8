"""A folder of recordings with what is said in them.

``manifest.json`` beside the audio: name → ``{"wake": str|null, "text": str, "pause_s": s, "snr_db": dB}``; the
audio is ``<name>.flac`` or ``<name>.wav``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..core.errors import InvalidArguments, NotFound
from ..engines.protocols import SAMPLE_RATE

Calls = tuple[tuple[str, dict[str, Any]], ...]
"""``(method, args)``, in order."""

_T = TypeVar("_T")

_SUFFIXES = (".flac", ".wav")


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    wake: str | None
    text: str
    pause_s: float | None = Field(default=None, ge=0)
    snr_db: float | None = None


class _ExpectedCall(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    args: dict[str, Any] = {}


_MANIFEST = TypeAdapter(dict[str, _Entry])
_EXPECTED = TypeAdapter(dict[str, tuple[_ExpectedCall, ...]])


@dataclass(frozen=True)
class Recording:
    """``wake`` is the wake word in it, None where there is none and so nothing may happen.

    ``calls`` are the expected ``(method, args)``; None where nobody wrote them down.
    """

    name: str
    path: Path
    wake: str | None
    text: str
    pause_s: float | None = None
    snr_db: float | None = None
    calls: Calls | None = None


def load_recordings(folder: Path, only: Iterable[str] = ()) -> tuple[Recording, ...]:
    """The recordings of ``folder`` in the manifest's order, those named in ``only`` in that order.

    Calls come from ``expected.json`` where it is there: name → ``[{"method": str, "args": {...}}, ...]``.
    Raises ``NotFound`` for missing files or names and ``InvalidArguments`` for a file of another shape.
    """
    entries = _read(folder / "manifest.json", _MANIFEST)
    expected = _read(folder / "expected.json", _EXPECTED) if (folder / "expected.json").exists() else {}
    names = list(only) or list(entries)
    if unknown := [name for name in names if name not in entries]:
        raise NotFound(f"{folder / 'manifest.json'} has no {', '.join(unknown)}; it has {', '.join(entries)}.")
    found = []
    missing = []
    for name in names:
        path = next((p for suffix in _SUFFIXES if (p := folder / f"{name}{suffix}").is_file()), None)
        if path is None:
            missing.append(name)
            continue
        calls = expected.get(name)
        found.append(
            Recording(
                name=name,
                path=path,
                calls=None if calls is None else tuple((call.method, call.args) for call in calls),
                **entries[name].model_dump(),
            )
        )
    if missing:
        raise NotFound(f"{folder} has no .flac or .wav for {', '.join(missing)}; add them or mend manifest.json.")
    return tuple(found)


def read_pcm(path: Path) -> bytes:
    """The recording as 16 kHz mono s16le; several channels are averaged. Raises ``InvalidArguments``."""
    import numpy as np
    import soundfile
    import soxr

    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, RuntimeError) as error:
        raise InvalidArguments(f"{path} is not a sound file that can be read: {error}") from error
    mono = samples.mean(axis=1)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    pcm: bytes = np.clip(np.rint(mono * 32768.0), -32768, 32767).astype("<i2").tobytes()
    return pcm


def _read(path: Path, shape: TypeAdapter[_T]) -> _T:
    try:
        return shape.validate_python(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise NotFound(f"{path} is missing; it says what is in each recording.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidArguments(f"{path} is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top"
        raise InvalidArguments(f"{path} is not of the expected form, at {where}: {first['msg']}.") from error
