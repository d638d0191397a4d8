"""Writes GGUF files, the model format of llama.cpp (version 3 of the specification in ggml's docs/gguf.md)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

F32, Q4_0, Q6_K = 0, 2, 14
"""Types of tensors."""
_ALIGNMENT = 32
_BYTES = {F32: (1, 4), Q4_0: (32, 18), Q6_K: (256, 210)}
"""Elements and bytes of a block."""

Value = str | bool | int | float | Sequence[str] | Sequence[int]
Make = Callable[[], "npt.NDArray[np.generic]"]


@dataclass(frozen=True)
class Tensor:
    """``shape`` in numpy's order, rows first; ``make`` gives the bytes only when they are written."""

    name: str
    shape: tuple[int, ...]
    kind: int
    make: Make

    @property
    def size(self) -> int:
        elements, size = _BYTES[self.kind]
        count = 1
        for length in self.shape:
            count *= length
        return count // elements * size


def write_gguf(path: Path, metadata: dict[str, Value], tensors: Sequence[Tensor]) -> None:
    """Write the file under a scratch name first, so that it is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.part")
    try:
        with scratch.open("wb") as file:
            _write(file, metadata, tensors)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _write(file: BinaryIO, metadata: dict[str, Value], tensors: Sequence[Tensor]) -> None:
    file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        file.write(_string(key) + b"".join(_value(value)))
    offset = 0
    for tensor in tensors:
        shape = tensor.shape[::-1]  # ggml names the fastest dimension first
        file.write(_string(tensor.name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, tensor.kind, offset))
        offset += _padded(tensor.size)
    file.write(bytes(_padded(file.tell()) - file.tell()))
    for tensor in tensors:
        data = tensor.make().tobytes()
        assert len(data) == tensor.size, f"{tensor.name} has {len(data)} bytes instead of {tensor.size}"
        file.write(data)
        file.write(bytes(_padded(len(data)) - len(data)))


def _value(value: Value) -> Iterator[bytes]:
    if isinstance(value, str):
        yield struct.pack("<I", 8) + _string(value)
    elif isinstance(value, bool):
        yield struct.pack("<I?", 7, value)
    elif isinstance(value, int):
        yield struct.pack("<II", 4, value)
    elif isinstance(value, float):
        yield struct.pack("<If", 6, value)
    elif value and isinstance(value[0], str):
        yield struct.pack("<IIQ", 9, 8, len(value))
        yield from (_string(str(item)) for item in value)
    else:
        yield struct.pack("<IIQ", 9, 5, len(value))
        yield struct.pack(f"<{len(value)}i", *value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
