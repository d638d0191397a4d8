"""What an engine of each kind can do.

Two families. *Always-on* engines (:class:`KeywordSpotter`, :class:`VoiceActivityDetector`) are small and run
on the daemon's capture thread. *On-demand* engines (:class:`Recognizer`, :class:`LanguageModel`) are heavy:
they implement these synchronous protocols inside a worker process, and a slot lends out an asynchronous handle.

Audio is always 16 kHz, mono, signed 16-bit little endian (`s16le`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

SAMPLE_RATE = 16_000
BYTES_PER_SECOND = SAMPLE_RATE * 2


@dataclass(frozen=True)
class Detection:
    """A wake word was heard. ``score`` is 0–1; ``lag_samples`` counts the samples of the block after the hit."""

    keyword: str
    score: float
    lag_samples: int = 0


class KeywordSpotter(Protocol):
    """Listens for wake words in a stream of audio; small enough to run for ever."""

    @property
    def keywords(self) -> tuple[str, ...]: ...

    def process(self, pcm: bytes) -> Detection | None:
        """Feed the next audio, any whole number of samples; the first hit in it resets the detector."""

    def reset(self) -> None:
        """Forget the audio heard so far."""

    def close(self) -> None: ...


class VoiceActivityDetector(Protocol):
    """Tells how likely each frame holds speech."""

    @property
    def frame_samples(self) -> int:
        """Samples in the frame that :meth:`process` takes."""

    def process(self, frame: bytes) -> float:
        """Probability of speech, 0–1, in one frame of ``frame_samples`` samples."""

    def reset(self) -> None: ...

    def close(self) -> None: ...


class Job(Protocol):
    """One request as the engine sees it: it polls ``cancelled`` often enough to stop within 100 ms."""

    @property
    def cancelled(self) -> bool: ...

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` from another thread once the job is cancelled (at once if it already is)."""


class OnDemandEngine(Protocol):
    """What a worker hosts. The constructor loads the model and raises ``ModelUnavailable`` with the reason."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Transcript:
    """What a recogniser heard. Times in seconds."""

    text: str
    audio_s: float
    decode_s: float


class Recognizer(OnDemandEngine, Protocol):
    """Speech to text."""

    def transcribe(self, pcm: bytes, job: Job) -> Transcript:
        """Text of one segment, at most 30 s; ``""`` for silence. Raises ``InvalidArguments`` when too long."""


@dataclass(frozen=True)
class Generation:
    """One request to a language model.

    ``prefix`` is byte-stable over many requests: the engine keeps its state and never reads it twice.
    ``grammar`` is GBNF, ``""`` for free text. ``temperature`` 0 is greedy.
    """

    prefix: str
    suffix: str
    grammar: str = ""
    max_tokens: int = 96
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Completion:
    """The end of a generation.

    ``finish`` is ``stop`` (model or stop string ended it) or ``length``. ``prefix_source`` tells where the
    prefix state came from: ``kept`` (in memory), ``disk`` or ``decoded``. ``prompt_tokens`` counts the tokens
    that were evaluated for this request, so a kept prefix costs none.
    """

    text: str
    finish: str
    tokens: int
    prompt_tokens: int
    prefix_source: str
    first_token_s: float
    total_s: float


class LanguageModel(OnDemandEngine, Protocol):
    """Text to text, under a grammar when asked."""

    def prepare(self, prefix: str, job: Job) -> str:
        """Make ``prefix`` ready ahead of time; returns its ``prefix_source``."""

    def generate(self, request: Generation, job: Job) -> Iterator[str | Completion]:
        """Pieces of text as they become certain, then one :class:`Completion`.

        Raises ``InvalidArguments`` for a bad grammar or a prompt that does not fit, ``Cancelled`` on cancel.
        """


class Embedder(OnDemandEngine, Protocol):
    """Text to vectors, and which of the labels that examples taught a text has."""

    def embed(self, texts: list[str], job: Job) -> list[list[float]]:
        """One unit-length vector per text."""

    def fit(self, key: str, texts: list[str], labels: list[str], job: Job) -> str:
        """Learn ``labels[i]`` from ``texts[i]``; ``key`` is a hexadecimal name of the content, and is returned."""

    def classify(self, key: str, texts: list[str], job: Job) -> list[list[float]]:
        """Per text the probability of each label, labels in sorted order. Raises ``NotFound`` for an unknown key."""


class Synthesizer(OnDemandEngine, Protocol):
    """Text to speech."""

    def synthesize(self, text: str, language: str, job: Job) -> bytes:
        """Audio of the spoken text, 16 kHz mono s16le."""
