"""Any rate and number of channels to the daemon's 16 kHz mono."""

from __future__ import annotations

from ...engines.protocols import SAMPLE_RATE


class Resampler:
    """Turns interleaved s16le audio into 16 kHz mono s16le, piece by piece.

    Takes the first channel: microphone arrays put their processed signal there, and some put the loudspeaker's
    echo reference into another.
    """

    def __init__(self, rate: int, channels: int) -> None:
        import numpy
        import soxr

        self._numpy = numpy
        self._channels = channels
        self._stream = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="int16") if rate != SAMPLE_RATE else None

    def feed(self, pcm: bytes) -> bytes:
        """What became ready; the filter holds back some 20 ms, so the lengths vary."""
        samples = self._numpy.frombuffer(pcm, dtype="<i2")[:: self._channels]
        if self._stream is not None:
            samples = self._stream.resample_chunk(self._numpy.ascontiguousarray(samples))
        converted: bytes = samples.tobytes()
        return converted
