"""Silero VAD: speech and silence are told apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from famulus.core.errors import InvalidArguments
from famulus.engines.silero import SileroDetector


def scores(detector: SileroDetector, pcm: bytes) -> list[float]:
    size = detector.frame_samples * 2
    return [detector.process(pcm[at : at + size]) for at in range(0, len(pcm) - size + 1, size)]


def test_speech_scores_high_and_silence_low(recording: Callable[[str], bytes]) -> None:
    detector = SileroDetector()
    speech = scores(detector, recording("no_wake_chatter"))
    assert sum(score > 0.5 for score in speech) > len(speech) / 2
    detector.reset()
    assert max(scores(detector, bytes(3 * 32_000))) < 0.1
    detector.close()


def test_a_reset_forgets_the_speech_before(recording: Callable[[str], bytes]) -> None:
    detector = SileroDetector()
    pcm = recording("wake_time")
    first = scores(detector, pcm)
    detector.reset()
    assert scores(detector, pcm) == first


@pytest.mark.parametrize("size", [0, 1022, 1026])
def test_a_frame_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidArguments, match="512"):
        SileroDetector().process(bytes(size))
