"""When a sentence starts and ends, and which audio of it the recogniser gets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal

from ...engines.protocols import BYTES_PER_SECOND, SAMPLE_RATE, VoiceActivityDetector
from .level import power

Decision = Literal["waiting", "speaking", "ended", "nothing"]

_HYSTERESIS = 0.7  # speech that has begun goes on down to this part of the threshold (0.5 → 0.35)
_TAIL_S = 0.3  # kept after the last frame of speech: a recogniser needs room to end a word
# Lead before the speech, and zeros after it, in seconds. Of 50 sentences by a synthetic voice, clean and at 15 and
# 10 dB of white noise, Moonshine Tiny had 17 % not to the letter with the first cut (24 % with 0.2 s of lead, 0.1 s of
# tail and zeros), and 13 % with neither of the two.
_CUT = (0.3, 0.3)
_SECOND_CUT = (1.0, 0.3)
_LEVEL_STEP = 0.2  # weight of one frame in the level of the speech
_BACKGROUND = 0.01  # 20 dB below the loudest speech is somebody else's, or noise
_CLOCK_SLACK_S = 1.0


class Endpointer:
    """Decides on one sentence; fed the audio after the wake word, block by block.

    Speech starts where the detector passes ``threshold`` and ends after ``silence_s`` below 0.7 of it; less than
    ``min_speech_s`` of it was no speech. ``nothing`` after ``start_s`` without a word. A sentence is cut after
    ``max_s`` of audio, and whatever the audio does, the monotonic clock ends it soon after ``start_s + max_s``.
    Steady noise that passes for speech cannot hold it open once it is 20 dB below the loudest speech.

    """

    def __init__(
        self,
        vad: VoiceActivityDetector,
        *,
        start_s: float = 5.0,
        silence_s: float = 0.5,
        max_s: float = 10.0,
        threshold: float = 0.5,
        min_speech_s: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._vad = vad
        vad.reset()
        frame_s = vad.frame_samples / SAMPLE_RATE
        self._frame_bytes = vad.frame_samples * 2
        self._start_frames = math.ceil(start_s / frame_s)
        self._silence_frames = math.ceil(silence_s / frame_s)
        self._max_frames = math.ceil(max_s / frame_s)
        self._min_frames = math.ceil(min_speech_s / frame_s)
        self._on = threshold
        self._off = threshold * _HYSTERESIS
        self._clock = clock
        self._must_end_at = clock() + start_s + max_s + _CLOCK_SLACK_S
        self._audio = bytearray()
        self._frames = 0
        self._first: int | None = None  # frame in which speech started
        self._last = 0  # last frame of speech
        self._level = 0.0
        self._loudest = 0.0
        self._decision: Decision = "waiting"

    def feed(self, pcm: bytes) -> Decision:
        """Take the next audio, any whole number of samples; audio after a final decision is ignored."""
        if self._decision in ("ended", "nothing"):
            return self._decision
        self._audio += pcm
        while self._decision in ("waiting", "speaking") and self._unseen() >= self._frame_bytes:
            start = self._frames * self._frame_bytes
            self._judge(bytes(self._audio[start : start + self._frame_bytes]))
        if self._clock() >= self._must_end_at:
            self.cut()
        return self._decision

    def cut(self) -> Decision:
        """End now with what was heard."""
        if self._decision == "speaking":
            self._decision = "ended" if self._long_enough() else "nothing"
        elif self._decision == "waiting":
            self._decision = "nothing"
        return self._decision

    @property
    def segment(self) -> bytes:
        """The sentence for the recogniser, from a little before its start; empty if there was none."""
        return self._cut_out(*_CUT)

    @property
    def second_segment(self) -> bytes:
        """The same sentence cut otherwise: a recogniser that stumbles over one cut seldom does over both."""
        return self._cut_out(*_SECOND_CUT)

    def _cut_out(self, lead_s: float, zeros_s: float) -> bytes:
        if self._decision != "ended" or self._first is None:
            return b""
        start = max(0, self._first * self._frame_bytes - _whole_samples(lead_s))
        end = (self._last + 1) * self._frame_bytes + _whole_samples(_TAIL_S)
        return bytes(self._audio[start:end]) + bytes(_whole_samples(zeros_s))

    @property
    def speech_end_s(self) -> float:
        """Seconds of audio from the wake word to the last speech so far."""
        return (self._last + 1) * self._frame_bytes / BYTES_PER_SECOND if self._first is not None else 0.0

    def _unseen(self) -> int:
        return len(self._audio) - self._frames * self._frame_bytes

    def _judge(self, frame: bytes) -> None:
        probability = self._vad.process(frame)
        index = self._frames
        self._frames += 1
        if self._first is None:
            if probability >= self._on:
                self._first = self._last = index
                self._level = self._loudest = power(frame) * _LEVEL_STEP
                self._decision = "speaking"
            elif self._frames >= self._start_frames:
                self._decision = "nothing"
            return
        if probability >= self._off and self._is_near(frame):
            self._last = index
        if index - self._first + 1 >= self._max_frames:
            self.cut()
        elif index - self._last >= self._silence_frames:
            self._end_or_forget()

    def _is_near(self, frame: bytes) -> bool:
        now = power(frame)
        self._level += (now - self._level) * _LEVEL_STEP
        self._loudest = max(self._loudest, self._level)
        return now >= self._loudest * _BACKGROUND

    def _long_enough(self) -> bool:
        return self._first is not None and self._last - self._first + 1 >= self._min_frames

    def _end_or_forget(self) -> None:
        if self._long_enough():
            self._decision = "ended"
            return
        self._first = None
        self._decision = "waiting" if self._frames < self._start_frames else "nothing"


def _whole_samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE) * 2
