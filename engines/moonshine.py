"""Speech to text by Moonshine (English, quick on small boards) through sherpa-onnx."""

from __future__ import annotations

import base64
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import Cancelled, Failed, InvalidArguments, ModelUnavailable
from .protocols import BYTES_PER_SECOND, SAMPLE_RATE, Job, Transcript

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LOG = logging.getLogger(__name__)

_LIMIT_S = 30
_SEGMENT_S = 10  # the decoder's memory grows with the square of the length: 44 s at once took 449 MB
_QUIET_SEARCH_S = 3  # a longer segment is cut at the quietest point in its last seconds
_QUIET_WINDOW = SAMPLE_RATE // 10
_TAIL = SAMPLE_RATE // 10  # without silence after it the last word is often lost (30 of 35 right, not 35)


class Moonshine:
    """The :class:`~famulus.engines.protocols.Recognizer` for Moonshine models in their second file format.

    ``encoder`` and ``decoder`` are the ``.ort`` files, ``tokenizer`` is Moonshine's own ``tokenizer.bin``. One
    thread is quickest for the tiny model (0.022 of real time on x86_64, 0.062 with two). A cancel takes effect
    between segments of at most 10 s; the decode of one segment cannot be stopped.
    """

    def __init__(self, *, encoder: str, decoder: str, tokenizer: str, threads: int = 1) -> None:
        for role, path in (("encoder", encoder), ("decoder", decoder), ("tokenizer", tokenizer)):
            if not Path(path).is_file():
                raise ModelUnavailable(f"The speech {role} {path} is missing; get it with `famulus models pull`.")
        lines = token_table(Path(tokenizer).read_bytes())
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import sherpa_onnx

        with tempfile.NamedTemporaryFile("w", prefix="famulus-tokens-", suffix=".txt") as tokens:
            tokens.writelines(lines)
            tokens.flush()
            try:
                self._recognizer = sherpa_onnx.OfflineRecognizer.from_moonshine_v2(
                    encoder=encoder, decoder=decoder, tokens=tokens.name, num_threads=threads
                )
            except RuntimeError as error:
                _LOG.debug("sherpa-onnx refused the model: %s", error)
                raise ModelUnavailable(f"The speech model beside {encoder} is damaged; pull it again.") from error

    def transcribe(self, pcm: bytes, job: Job) -> Transcript:
        """Text of one segment, at most 30 s; ``""`` for silence. Raises ``InvalidArguments`` when too long."""
        import numpy as np

        audio_s = len(pcm) / BYTES_PER_SECOND
        if len(pcm) % 2:
            raise InvalidArguments(f"Audio comes in whole 16-bit samples, not in {len(pcm)} bytes.")
        if audio_s > _LIMIT_S:
            raise InvalidArguments(f"{audio_s:.1f} s of speech is too long; send at most {_LIMIT_S} s at once.")
        started = time.monotonic()
        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
        texts = []
        for segment in split_at_quiet(samples):
            if job.cancelled:
                raise Cancelled("The transcription was cancelled.")
            texts.append(self._decode(segment))
        if job.cancelled:
            raise Cancelled("The transcription was cancelled.")
        return Transcript(" ".join(filter(None, texts)), audio_s, time.monotonic() - started)

    def _decode(self, samples: npt.NDArray[np.float32]) -> str:
        import numpy as np

        if self._recognizer is None:
            raise Failed("The recogniser is closed; load it again.")
        stream = self._recognizer.create_stream()
        stream.accept_waveform(SAMPLE_RATE, np.append(samples, np.zeros(_TAIL, np.float32)))
        self._recognizer.decode_stream(stream)
        return str(stream.result.text).strip()

    def close(self) -> None:
        """Free the model; only the end of the process returns all of its memory."""
        self._recognizer = None


def token_table(data: bytes) -> list[str]:
    """Lines of sherpa-onnx's ``tokens.txt`` from the bytes of a ``tokenizer.bin``.

    The source is one entry per token id: a length (one byte, or two from 128 up: ``second * 128 + first - 128``)
    and so many bytes. Raises ``ModelUnavailable`` for anything else, because sherpa-onnx ends the whole process
    when it reads a table it does not like.
    """
    damaged = ModelUnavailable("The speech tokenizer is damaged or of another model; pull it again.")
    tokens: list[bytes] = []
    at = 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128:
            if at == len(data):
                raise damaged
            length += data[at] * 128 - 128
            at += 1
        if at + length > len(data):
            raise damaged
        tokens.append(data[at : at + length])
        at += length
    if tokens[:3] != [b"<unk>", b"<s>", b"</s>"]:
        raise damaged
    # The published vocabulary has one empty token, which sherpa-onnx could not read back.
    return [f"{base64.b64encode(token).decode()} {number}\n" for number, token in enumerate(tokens) if token]


def split_at_quiet(samples: npt.NDArray[np.float32]) -> list[npt.NDArray[np.float32]]:
    """Cut 16 kHz audio into parts of at most 10 s, each cut in the quietest 0.1 s of the 3 s before that limit."""
    import numpy as np

    parts = []
    while len(samples) > _SEGMENT_S * SAMPLE_RATE:
        first = (_SEGMENT_S - _QUIET_SEARCH_S) * SAMPLE_RATE
        windows = samples[first : _SEGMENT_S * SAMPLE_RATE].reshape(-1, _QUIET_WINDOW)
        quietest = int(np.argmin(np.square(windows).sum(axis=1)))
        cut = first + quietest * _QUIET_WINDOW + _QUIET_WINDOW // 2
        parts.append(samples[:cut])
        samples = samples[cut:]
    return [*parts, samples] if len(samples) else parts
