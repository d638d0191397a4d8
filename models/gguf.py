"""The head of a GGUF file: what kind of model it is, and in which form its weights are kept.

The layout is that of the GGUF specification, versions 2 and 3 (ggml-org/ggml, docs/gguf.md).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import Failed, InvalidArguments

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_FORMS = {  # number in the file → name, numbers of a block, bytes of a block
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    30: ("BF16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    20: ("IQ4_NL", 32, 18),
}
_MOST_TENSORS = 1 << 20


@dataclass(frozen=True)
class Tensor:
    """``elements`` counts its numbers, ``row`` those of one row; ``size`` in bytes, with the padding after it."""

    name: str
    form: str
    elements: int
    row: int
    dimensions: int
    size: int


@dataclass(frozen=True)
class Gguf:
    """What the head tells. ``facts`` are the metadata without arrays."""

    facts: dict[str, Any] = field(repr=False)
    tensors: tuple[Tensor, ...] = field(repr=False)

    @property
    def architecture(self) -> str:
        return str(self.facts.get("general.architecture", "unknown"))

    @property
    def parameters(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def form(self) -> str:
        """The form that most bytes of the layers have: embeddings are often kept in another."""
        sizes: dict[str, int] = {}
        for tensor in [tensor for tensor in self.tensors if tensor.name.startswith("blk.")] or self.tensors:
            sizes[tensor.form] = sizes.get(tensor.form, 0) + tensor.size
        return max(sizes, key=lambda form: sizes[form], default="unknown")


def read_gguf(path: Path) -> Gguf:
    """The head of the file at ``path``; no weight is read.

    Raises ``InvalidArguments`` for what is no whole GGUF file, ``Failed`` for what cannot be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).gguf()
    except (struct.error, IndexError, UnicodeDecodeError, _Malformed) as error:
        raise InvalidArguments(f"{path} is not a whole GGUF file ({error}); fetch it again.") from None
    except ValueError:  # mmap of an empty file
        raise InvalidArguments(f"{path} is empty; fetch it again.") from None
    except OSError as error:
        raise Failed(f"{path} cannot be read ({error.strerror}); check the path and its permissions.") from None


class _Malformed(Exception):
    pass


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0

    def gguf(self) -> Gguf:
        if self._data[:4] != b"GGUF":
            raise _Malformed("it does not begin with GGUF")
        self._at = 4
        (version,) = self._take("I")
        if version not in (2, 3):
            raise _Malformed(f"version {version} is not known")
        tensors, facts = self._take("QQ")
        if tensors > _MOST_TENSORS or facts > _MOST_TENSORS:
            raise _Malformed("its head is damaged")
        pairs = [(self._text(), self._value(self._take("I")[0])) for _ in range(facts)]
        known = {key: value for key, value in pairs if value is not None}
        heads = [self._tensor() for _ in range(tensors)]
        alignment = int(known.get("general.alignment", 32)) or 32
        start = -(-self._at // alignment) * alignment
        return Gguf(facts=known, tensors=self._sized(heads, len(self._data) - start))

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        (count,) = self._take("I")
        if not 1 <= count <= 8:
            raise _Malformed("its head is damaged")
        shape = self._take(f"{count}Q")
        form, offset = self._take("IQ")
        return name, shape, form, offset

    @staticmethod
    def _sized(heads: list[tuple[str, tuple[int, ...], int, int]], end: int) -> tuple[Tensor, ...]:
        ends = dict(zip(starts := sorted(head[3] for head in heads), [*starts[1:], end], strict=True))
        tensors = []
        for name, shape, form, offset in heads:
            elements = 1
            for size in shape:
                elements *= size
            form_name, block, block_bytes = _FORMS.get(form, (f"type {form}", 1, 0))
            if ends[offset] - offset < max(1, elements // block * block_bytes):
                raise _Malformed(f"it ends before {name} does")
            tensors.append(Tensor(name, form_name, elements, shape[0], len(shape), ends[offset] - offset))
        return tuple(tensors)

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return values

    def _text(self) -> str:
        (length,) = self._take("Q")
        if length > len(self._data) - self._at:
            raise _Malformed("it is cut off")
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def _value(self, kind: int) -> Any:
        """A scalar or text; None for an array, which is passed over."""
        if kind == _STRING:
            return self._text()
        if kind in _SCALARS:
            return self._take(_SCALARS[kind])[0]
        if kind != _ARRAY:
            raise _Malformed(f"value type {kind} is not known")
        inner, count = self._take("IQ")
        if inner in _SCALARS:
            self._at += count * struct.calcsize(f"<{_SCALARS[inner]}")
        elif inner in (_STRING, _ARRAY) and count <= len(self._data):
            for _ in range(count):
                self._skip(inner)
        else:
            raise _Malformed(f"value type {inner} is not known")
        return None

    def _skip(self, kind: int) -> None:
        if kind == _STRING:
            (length,) = self._take("Q")
            self._at += length
        else:
            self._value(kind)
