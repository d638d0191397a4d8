"""Text to piece ids by a SentencePiece unigram model, in plain Python: no native library for one small file.

The segmentation is the one of Kudo (2018), "Subword Regularization": the most probable split into pieces.
"""

from __future__ import annotations

import struct
import unicodedata
from array import array
from collections.abc import Iterator
from pathlib import Path

UNKNOWN, BEGIN, END = 0, 1, 2
_SPACE = "▁"
_UNKNOWN_PENALTY = 10.0  # sentencepiece's own: an unknown character is worse than the worst piece by so much


class UnigramTokenizer:
    """``encode(text)`` gives the ids between ``BEGIN`` and ``END``; about 25 MB for 128,000 pieces.

    Normalises by NFKC, which equals the model's own rules for all but a few signs that nobody says.
    """

    def __init__(self, path: Path) -> None:
        self._ids: dict[str, int] = {}
        self._scores = array("f")
        self._longest = 0
        for number, (piece, score) in enumerate(_pieces(path.read_bytes())):
            self._ids.setdefault(piece, number)
            self._scores.append(score)
            self._longest = max(self._longest, len(piece))
        if len(self._ids) < END + 1:
            raise ValueError(f"{path.name} holds no pieces")
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY

    def encode(self, text: str) -> list[int]:
        normal = "".join(
            " " if char.isspace() else char
            for char in unicodedata.normalize("NFKC", text)
            if char.isspace() or unicodedata.category(char) not in {"Cc", "Cf"}
        )
        words = normal.split()
        return [BEGIN, *(self._best_split(_SPACE + _SPACE.join(words)) if words else [UNKNOWN]), END]

    def _best_split(self, text: str) -> list[int]:
        """Viterbi: for each position the best score of all splits that end there, and the last piece of that split."""
        size = len(text)
        best = [0.0] + [-1e38] * size
        last: list[tuple[int, int]] = [(0, UNKNOWN)] * (size + 1)
        for start in range(size):
            single = False
            for end in range(start + 1, min(start + self._longest, size) + 1):
                piece = self._ids.get(text[start:end])
                if piece is None:
                    continue
                single = single or end == start + 1
                if (score := best[start] + self._scores[piece]) > best[end]:
                    best[end], last[end] = score, (start, piece)
            if not single and (score := best[start] + self._unknown_score) > best[start + 1]:
                best[start + 1], last[start + 1] = score, (start, UNKNOWN)
        ids: list[int] = []
        while size:
            size, piece = last[size]
            ids.append(piece)
        return ids[::-1]


def _pieces(model: bytes) -> Iterator[tuple[str, float]]:
    """Piece and score of each entry, in the order of their ids: field 1 of the model's protobuf message."""
    for field, value in _fields(model):
        if field == 1:
            piece, score = "", 0.0
            for inner, content in _fields(value):
                if inner == 1:
                    piece = content.decode("utf-8")
                elif inner == 2:
                    score = struct.unpack("<f", content)[0]
            yield piece, score


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and raw value of each protobuf field; numbers of variable length are passed over."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        match tag & 7:
            case 0:
                _, position = _varint(message, position)
                continue
            case 1:
                size = 8
            case 2:
                size, position = _varint(message, position)
            case 5:
                size = 4
            case kind:
                raise ValueError(f"a field of the unknown kind {kind}")
        if position + size > len(message):
            raise ValueError("a field that is cut short")
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("a number that is cut short")
