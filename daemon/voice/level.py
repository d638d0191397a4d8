"""How loud audio is."""

from __future__ import annotations

import math
from array import array
from operator import mul

SILENCE_DBFS = -96.0
_FULL_SCALE_POWER = 32768.0**2


def power(pcm: bytes) -> float:
    """Mean square of s16le samples, 0–1 of full scale."""
    # Plain Python on purpose: some 30 µs per call, and no numpy for a daemon that would not need it otherwise.
    samples = array("h", pcm)
    return sum(map(mul, samples, samples)) / (len(samples) * _FULL_SCALE_POWER) if samples else 0.0


def dbfs(pcm: bytes) -> float:
    """Level in dB of full scale, ``SILENCE_DBFS`` at least."""
    mean_square = power(pcm)
    return max(SILENCE_DBFS, 10 * math.log10(mean_square)) if mean_square > 0 else SILENCE_DBFS
