"""Wake words by openWakeWord models on plain onnxruntime: heavier than microWakeWord, better in noise."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InvalidArguments, ModelUnavailable
from .protocols import Detection

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LOG = logging.getLogger(__name__)

_FRAME_SAMPLES = 1280  # 80 ms: 8 mel frames, one embedding, one score
_FRAME_BYTES = _FRAME_SAMPLES * 2
_CONTEXT_SAMPLES = 480  # the mel window reaches this far back into the frame before
_MEL_FRAMES = 76
_MEL_BINS = 32
_EMBEDDING = 96
_WARM_UP_SCORES = 5  # the first scores after a reset are meaningless


class OpenWakeWordSpotter:
    """Hears any of several wake words in a stream; mel spectrogram and embedding are computed once for all.

    ``melspectrogram`` and ``embedding`` are the two shared ONNX files, ``keywords`` maps each word's name to its
    classifier's file; ``threshold`` is 0–1. Loads the models at once.

    2 % of an x86_64 core and 18 MB beyond onnxruntime itself for one word (real-time pace).
    """

    def __init__(
        self, melspectrogram: str, embedding: str, keywords: Mapping[str, str], threshold: float = 0.5
    ) -> None:
        if not keywords:
            raise InvalidArguments("No wake word is named; name at least one.")
        if not 0 < threshold <= 1:
            raise InvalidArguments(f"A wake word threshold lies between 0 and 1, not at {threshold:g}.")
        self._threshold = threshold
        self._mel_session: Any = _session(melspectrogram, rank=2)
        self._embedding_session: Any = _session(embedding, rank=4)
        self._classifiers = {name: _session(path, rank=3) for name, path in keywords.items()}
        self._lengths = {name: _length(name, session) for name, session in self._classifiers.items()}
        self._rest: bytes
        self._warm_up: int
        self._window: npt.NDArray[np.float32]
        self._mel: npt.NDArray[np.float32]
        self._embeddings: npt.NDArray[np.float32]
        self._quiet = self._quiet_embeddings()
        self.reset()

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names that detections carry."""
        return tuple(self._classifiers)

    def process(self, pcm: bytes) -> Detection | None:
        """Feed the next audio, any whole number of samples; the first hit in it resets the detector."""
        if len(pcm) % 2:
            raise InvalidArguments(f"Audio comes in whole 16-bit samples, not in {len(pcm)} bytes.")
        audio = self._rest + pcm
        end = len(audio) - len(audio) % _FRAME_BYTES
        for start in range(0, end, _FRAME_BYTES):
            name, score = self._score(audio[start : start + _FRAME_BYTES])
            if score >= self._threshold:
                self.reset()
                return Detection(name, score, lag_samples=(len(audio) - start - _FRAME_BYTES) // 2)
        self._rest = audio[end:]
        return None

    def _score(self, frame: bytes) -> tuple[str, float]:
        """The likeliest word at the end of ``frame`` and its score, 0 while warming up."""
        import numpy as np

        self._embed(np.frombuffer(frame, "<i2"))
        self._warm_up = max(0, self._warm_up - 1)
        best = "", 0.0
        for name, session in self._classifiers.items():
            score = float(_run(session, self._embeddings[None, -self._lengths[name] :]).reshape(-1)[0])
            if score > best[1] and not self._warm_up:
                best = name, score
        return best

    def _embed(self, samples: npt.NDArray[np.int16]) -> None:
        self._window[:_CONTEXT_SAMPLES] = self._window[-_CONTEXT_SAMPLES:]
        self._window[_CONTEXT_SAMPLES:] = samples  # the model takes the int16 range as float32
        mel = _run(self._mel_session, self._window[None]).reshape(-1, _MEL_BINS) / 10 + 2
        self._mel[: -len(mel)] = self._mel[len(mel) :]
        self._mel[-len(mel) :] = mel
        self._embeddings[:-1] = self._embeddings[1:]
        self._embeddings[-1] = _run(self._embedding_session, self._mel[None, :, :, None]).reshape(_EMBEDDING)

    def _quiet_embeddings(self) -> npt.NDArray[np.float32]:
        """What the classifiers remember after a reset: faint noise. After zeros some of them fire on any hiss."""
        import numpy as np

        length = max(self._lengths.values())
        self._clear(np.zeros((length, _EMBEDDING), np.float32))
        noise = np.random.default_rng(0).integers(-1000, 1000, (length + 10, _FRAME_SAMPLES), np.int16)
        for samples in noise:
            self._embed(samples)
        return self._embeddings

    def _clear(self, embeddings: npt.NDArray[np.float32]) -> None:
        import numpy as np

        self._rest = b""
        self._warm_up = _WARM_UP_SCORES + 1
        self._window = np.zeros(_CONTEXT_SAMPLES + _FRAME_SAMPLES, np.float32)
        self._mel = np.ones((_MEL_FRAMES, _MEL_BINS), np.float32)
        self._embeddings = embeddings.copy()

    def reset(self) -> None:
        """Forget the audio heard so far."""
        self._clear(self._quiet)

    def close(self) -> None:
        """Free the models; the spotter cannot be used afterwards."""
        self._classifiers.clear()
        self._mel_session = self._embedding_session = None


def _session(path: str, rank: int) -> Any:
    """An inference session of one thread that does not spin; its first input must have ``rank`` dimensions."""
    if not Path(path).is_file():
        raise ModelUnavailable(f"The wake word model {path} is missing; get it with `famulus models pull`.")
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors share no base class
        _LOG.debug("onnxruntime refused %s: %s", path, error)
        raise ModelUnavailable(f"The wake word model {path} is damaged; pull it again.") from error
    if len(session.get_inputs()[0].shape) != rank:
        raise ModelUnavailable(f"{path} is not the openWakeWord model it is configured as; correct its path.")
    return session


def _length(name: str, session: Any) -> int:
    """How many embeddings the classifier looks at; 16 in the published models."""
    length = session.get_inputs()[0].shape[1]
    if not isinstance(length, int) or length < 1:
        raise ModelUnavailable(f"The wake word model of {name!r} does not tell its input length; replace it.")
    return length


def _run(session: Any, value: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    output: npt.NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: value})[0]
    return output
