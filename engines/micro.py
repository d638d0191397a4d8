"""Wake words by microWakeWord: the smallest spotter here, with four words in its package and any more by path."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArguments, ModelUnavailable, NotFound
from .protocols import Detection

_LOG = logging.getLogger(__name__)

_STEP_BYTES = 160 * 2  # the front end makes one feature vector per 10 ms


class MicroSpotter:
    """Hears any of several wake words in a stream; the audio features are computed once for all of them.

    ``keywords`` names built-in words (``hey_jarvis``, ``okay_nabu``, ``hey_mycroft``, ``alexa``) or paths of
    microWakeWord ``.json`` descriptions whose model lies beside them; such a word is called by the file's stem.
    ``threshold`` is 0–1, 0 for the cut-off each model was published with. A score is the mean probability over
    the model's sliding window. Loads the models at once, about a millisecond each.

    0.7 % of an x86_64 core for one word, 0.2 % for each further one (real-time pace, silence).
    """

    def __init__(self, keywords: Sequence[str], threshold: float = 0) -> None:
        if not keywords:
            raise InvalidArguments("No wake word is named; name at least one.")
        if not 0 <= threshold <= 1:
            raise InvalidArguments(f"A wake word threshold lies between 0 and 1, not at {threshold:g}.")
        try:
            from pymicro_wakeword import MicroWakeWordFeatures
        except (ImportError, OSError) as error:
            raise _unusable() from error
        self._words: dict[str, Any] = {}
        for keyword in keywords:
            name = Path(keyword).stem if keyword.endswith(".json") else keyword
            if name in self._words:
                raise InvalidArguments(f"The wake word {name!r} is named twice; name each once.")
            self._words[name] = _load(keyword)
        self._cutoffs = {name: threshold or word.probability_cutoff for name, word in self._words.items()}
        self._features = MicroWakeWordFeatures()
        self._rest = b""

    @property
    def keywords(self) -> tuple[str, ...]:
        """The names that detections carry."""
        return tuple(self._words)

    def process(self, pcm: bytes) -> Detection | None:
        """Feed the next audio, any whole number of samples; the first hit in it resets the detector."""
        if len(pcm) % 2:
            raise InvalidArguments(f"Audio comes in whole 16-bit samples, not in {len(pcm)} bytes.")
        audio = self._rest + pcm
        end = len(audio) - len(audio) % _STEP_BYTES
        for start in range(0, end, _STEP_BYTES):
            hit = self._step(audio[start : start + _STEP_BYTES])
            if hit is not None:
                name, score = hit
                self.reset()
                return Detection(name, score, lag_samples=(len(audio) - start - _STEP_BYTES) // 2)
        self._rest = audio[end:]
        return None

    def _step(self, audio: bytes) -> tuple[str, float] | None:
        for features in self._features.process_streaming(audio):
            best: tuple[str, float] | None = None
            # Every word sees every feature, also when another has hit: their strides must stay in step.
            for name, word in self._words.items():
                score = float(word.process_streaming_prob(features))
                if score > self._cutoffs[name] and (best is None or score > best[1]):
                    best = name, score
            if best is not None:
                return best
        return None

    def reset(self) -> None:
        """Forget the audio heard so far; raises ``ModelUnavailable`` if a model file has gone meanwhile."""
        self._rest = b""
        self._features.reset()
        for word in self._words.values():
            # The library resets a model by reading it again, and crashes the process when that fails.
            _check_model(word.lib, word.model_path)
            word.reset()

    def close(self) -> None:
        """Free the models; the spotter cannot be used afterwards."""
        while self._words:
            self._words.popitem()[1].close()


def _load(keyword: str) -> Any:
    from pymicro_wakeword import MicroWakeWord, Model

    builtin = {model.value: model for model in Model}
    try:
        if keyword in builtin:
            return MicroWakeWord.from_builtin(builtin[keyword])
        if not keyword.endswith(".json"):
            known = ", ".join(sorted(builtin))
            raise NotFound(
                f"There is no wake word {keyword!r}; use one of {known}, or the path of a .json description."
            )
        config = Path(keyword)
        if not config.is_file():
            raise ModelUnavailable(f"The wake word description {config} is missing; correct its path.")
        _check_config(config)
        return MicroWakeWord.from_config(config)
    except OSError as error:
        raise _unusable() from error
    except (KeyError, TypeError, ValueError) as error:
        _LOG.debug("microWakeWord refused %s: %r", keyword, error)
        raise ModelUnavailable(f"{keyword} does not describe a microWakeWord model; replace it.") from error


def _check_config(config: Path) -> None:
    import json

    from pymicro_wakeword import MicroWakeWord, Model

    model = config.parent / json.loads(config.read_text(encoding="utf-8"))["model"]
    builtin = MicroWakeWord.from_builtin(Model.HEY_JARVIS)  # lends its open library
    try:
        _check_model(builtin.lib, str(model.resolve()).encode())
    finally:
        builtin.close()


def _check_model(lib: Any, path: bytes) -> None:
    model = lib.TfLiteModelCreateFromFile(path)
    if not model:
        raise ModelUnavailable(
            f"The wake word model {path.decode(errors='replace')} is missing or damaged; restore it."
        )
    lib.TfLiteModelDelete(model)


def _unusable() -> ModelUnavailable:
    return ModelUnavailable("microWakeWord does not run on this system; choose the openwakeword engine instead.")
