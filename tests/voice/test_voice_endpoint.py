"""Where a sentence starts and ends."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
from famulus.daemon.voice.endpoint import Endpointer
from famulus.engines.silero import SileroDetector
from voice_fakes import HUSH, SPEECH, WORDS, LoudnessDetector

BLOCK_S = 0.08


def feed(endpointer: Endpointer, block: bytes, seconds: float) -> str:
    decision = "waiting"
    for _ in range(round(seconds / BLOCK_S)):
        decision = endpointer.feed(block)
    return decision


def recording(name: str) -> bytes:
    samples, rate = soundfile.read(WORDS / f"{name}.flac", dtype="int16")
    assert rate == 16_000
    return bytes(samples.tobytes())


def run(endpointer: Endpointer, pcm: bytes) -> str:
    decision = "waiting"
    for start in range(0, len(pcm), 2560):
        decision = endpointer.feed(pcm[start : start + 2560])
        if decision in ("ended", "nothing"):
            break
    return decision


def test_a_sentence_ends_after_the_silence_and_keeps_a_lead_and_a_tail() -> None:
    endpointer = Endpointer(LoudnessDetector(), silence_s=0.5)
    assert feed(endpointer, HUSH, 0.8) == "waiting"
    assert feed(endpointer, SPEECH, 0.8) == "speaking"
    assert feed(endpointer, HUSH, 0.4) == "speaking"
    assert feed(endpointer, HUSH, 0.24) == "ended"
    loud = np.frombuffer(endpointer.segment, "<i2") > 1000
    first, last = np.flatnonzero(loud)[[0, -1]] / 16_000
    assert first == pytest.approx(0.3, abs=0.04)
    assert last - first == pytest.approx(0.8, abs=0.01)
    assert len(loud) / 16_000 - last == pytest.approx(0.6, abs=0.04)  # 0.3 s of the room, 0.3 s of zeros
    assert endpointer.segment.endswith(bytes(9600))
    first_again = np.flatnonzero(np.frombuffer(endpointer.second_segment, "<i2") > 1000)[0] / 16_000
    assert first_again == pytest.approx(0.8, abs=0.04)  # from the wake word on
    assert endpointer.speech_end_s == pytest.approx(1.6, abs=0.04)


def test_the_lead_never_reaches_before_the_wake_frame() -> None:
    endpointer = Endpointer(LoudnessDetector())
    feed(endpointer, SPEECH, 0.8)
    assert feed(endpointer, HUSH, 0.8) == "ended"
    assert endpointer.segment.startswith(SPEECH)


def test_nobody_speaks() -> None:
    endpointer = Endpointer(LoudnessDetector(), start_s=2)
    assert feed(endpointer, HUSH, 1.92) == "waiting"
    assert feed(endpointer, HUSH, 0.16) == "nothing"
    assert endpointer.segment == b""
    assert endpointer.speech_end_s == 0


def test_a_knock_is_no_sentence_and_does_not_extend_the_wait() -> None:
    endpointer = Endpointer(LoudnessDetector(), start_s=2)
    feed(endpointer, SPEECH, 0.08)
    assert feed(endpointer, HUSH, 0.8) == "waiting"
    assert feed(endpointer, HUSH, 1.2) == "nothing"


def test_a_sentence_after_a_knock_is_taken() -> None:
    endpointer = Endpointer(LoudnessDetector())
    feed(endpointer, SPEECH, 0.08)
    feed(endpointer, HUSH, 0.8)
    feed(endpointer, SPEECH, 0.8)
    assert feed(endpointer, HUSH, 0.8) == "ended"
    assert len(endpointer.segment) / 32_000 == pytest.approx(1.7, abs=0.08)


def test_speech_goes_on_below_the_threshold_down_to_the_lower_one() -> None:
    class Murmur(LoudnessDetector):
        probability = 0.4

        def process(self, frame: bytes) -> float:
            return self.probability

    murmur = Murmur()
    endpointer = Endpointer(murmur, threshold=0.5)
    assert feed(endpointer, SPEECH, 0.8) == "waiting"
    murmur.probability = 0.6
    assert feed(endpointer, SPEECH, 0.4) == "speaking"
    murmur.probability = 0.4
    assert feed(endpointer, SPEECH, 2.0) == "speaking"
    murmur.probability = 0.3
    assert feed(endpointer, SPEECH, 0.8) == "ended"


def test_noise_for_ever_is_cut_in_audio_time() -> None:
    endpointer = Endpointer(LoudnessDetector(), max_s=3)
    assert feed(endpointer, SPEECH, 2.9) == "speaking"
    assert feed(endpointer, SPEECH, 0.24) == "ended"
    assert len(endpointer.segment) / 32_000 == pytest.approx(3.3, abs=0.2)


@pytest.mark.parametrize(("block", "decision"), [(SPEECH, "ended"), (HUSH, "nothing")])
def test_audio_that_comes_too_slowly_is_cut_by_the_clock(block: bytes, decision: str) -> None:
    now = 100.0
    endpointer = Endpointer(LoudnessDetector(), start_s=2, max_s=3, clock=lambda: now)
    feed(endpointer, block, 0.4)
    now += 6.5
    assert endpointer.feed(block) == decision
    assert endpointer.feed(SPEECH) == decision


def test_a_television_behind_the_speaker_does_not_hold_the_sentence_open() -> None:
    television = (np.frombuffer(SPEECH, "<i2") // 16).astype("<i2").tobytes()

    class AlwaysSpeech(LoudnessDetector):
        def process(self, frame: bytes) -> float:
            return 0.9

    endpointer = Endpointer(AlwaysSpeech())
    feed(endpointer, SPEECH, 0.8)
    assert feed(endpointer, television, 0.8) == "ended"


def test_white_noise_is_no_speech_for_the_real_detector() -> None:
    noise = np.random.default_rng(1).normal(0, 2000, 16_000 * 6).astype("<i2").tobytes()
    assert run(Endpointer(SileroDetector()), noise) == "nothing"


@pytest.mark.parametrize("word", ["say_stop", "say_yes"])
def test_short_words_are_sentences(word: str) -> None:
    endpointer = Endpointer(SileroDetector())
    assert run(endpointer, recording(word) + bytes(32_000)) == "ended"
    assert 0.8 < len(endpointer.segment) / 32_000 < 1.5


def test_odd_pieces_decide_as_whole_blocks_do() -> None:
    pcm = recording("say_yes") + bytes(32_000)
    whole, pieces = Endpointer(SileroDetector()), Endpointer(SileroDetector())
    run(whole, pcm)
    for start in range(0, len(pcm), 74):
        pieces.feed(pcm[start : start + 74])
    assert pieces.segment == whole.segment != b""
