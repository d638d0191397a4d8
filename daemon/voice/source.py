"""Where audio comes from: blocks of 80 ms, 16 kHz mono s16le, from a microphone, a recording or a FIFO."""

from __future__ import annotations

from typing import Protocol

from ...core.errors import Failed
from ...engines.protocols import SAMPLE_RATE

BLOCK_SAMPLES = 1280
BLOCK_BYTES = BLOCK_SAMPLES * 2
BLOCK_S = BLOCK_SAMPLES / SAMPLE_RATE
SILENT_BLOCK = bytes(BLOCK_BYTES)


class SourceLost(Failed):
    """The source was open and stopped giving audio; it may come back."""


class AudioSource(Protocol):
    """Gives audio at the pace of a clock; may be opened again after it was lost or closed."""

    @property
    def has_noise_floor(self) -> bool:
        """Whether zeros for long mean a dead codec; a recording or a FIFO may well be silent."""

    def open(self) -> None:
        """Blocks a few seconds at most; raises ``NotFound``, ``Busy``, ``Denied`` or ``Failed``."""

    def read(self) -> bytes:
        """The next ``BLOCK_BYTES``; blocks about one second at most, then raises :class:`SourceLost`."""

    def close(self) -> None:
        """From any thread, at any time; a blocked :meth:`open` or :meth:`read` returns soon by raising."""

    def describe(self) -> str:
        """A few words for logs and health, for example ``microphone USB Audio: 48000 Hz``."""
