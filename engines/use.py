"""The multilingual Universal Sentence Encoder: sentences of 16 languages to vectors, and a classifier over them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import Cancelled, InvalidArguments, ModelUnavailable, NotFound
from .protocols import Job

if TYPE_CHECKING:
    from .classifier import Classifier

_KEPT_FILES = 4
_FORM = "1"  # of the files kept: a change of features or model needs another
_LONGEST = 2000  # characters of a text that count
_AT_ONCE = 64
_KEY = re.compile(r"[0-9a-f]{16,64}")


class Use:
    """An :class:`~.protocols.Embedder` of 512 dimensions: 130 MB, 2–5 ms a sentence on one x86 core.

    Fitted classifiers are kept in ``cache_dir`` (none where it is ``""``), so that a restart costs no fit, and a
    changed set of examples only the embedding of the new ones.
    """

    def __init__(self, tokenizer: str, weights: str, cache_dir: str = "", threads: int = 1) -> None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))  # read once, as numpy is loaded
        from .classifier import UNREADABLE

        try:
            from .unigram import UnigramTokenizer
            from .use_network import UseNetwork

            self._tokenizer = UnigramTokenizer(Path(tokenizer))
            self._network = UseNetwork(Path(weights))
        except (*UNREADABLE, ImportError) as error:
            raise ModelUnavailable(
                f"The sentence encoder cannot be loaded ({type(error).__name__}); run famulus models pull use."
            ) from error
        self._cache_dir = Path(cache_dir) if cache_dir else None
        self._key = ""
        self._classifier: Classifier | None = None

    def embed(self, texts: list[str], job: Job) -> list[list[float]]:
        """One vector of length 1 per text, 512 numbers each."""
        rows: list[list[float]] = self._vectors(texts, job).tolist()
        return rows

    def fit(self, key: str, texts: list[str], labels: list[str], job: Job) -> str:
        """Learn labels from examples under the name ``key`` (hexadecimal, of the content)."""
        from .classifier import fit

        if not _KEY.fullmatch(key) or len(texts) != len(labels) or len(set(labels)) < 2:
            raise InvalidArguments(
                "A classifier needs a hexadecimal key, two labels or more, and a label for each text."
            )
        if not self._is_ready(key):
            self._classifier = fit(
                texts, self._vectors(texts, job, self._known_vectors()), labels, lambda: job.cancelled
            )
            self._key = key
            self._keep(texts)
        return key

    def classify(self, key: str, texts: list[str], job: Job) -> list[list[float]]:
        """For each text the probability of each label, labels in sorted order.

        Raises ``NotFound`` where nothing was fitted under that key.
        """
        if not self._is_ready(key) or self._classifier is None:
            raise NotFound("No classifier of that key is fitted; fit it first.")
        rows: list[list[float]] = self._classifier.probabilities(texts, self._vectors(texts, job)).tolist()
        return rows

    def close(self) -> None:
        """Nothing is held outside the object itself."""

    def _vectors(self, texts: Sequence[str], job: Job, known: dict[str, Any] | None = None) -> Any:
        import numpy as np

        from .use_network import DIMENSIONS

        rows = dict(known or {})
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        for start in range(0, len(missing), _AT_ONCE):
            if job.cancelled:
                raise Cancelled("The request was cancelled.")
            batch = missing[start : start + _AT_ONCE]
            encoded = self._network.encode([self._tokenizer.encode(text[:_LONGEST]) for text in batch])
            rows.update(zip(batch, encoded, strict=True))
        return np.array([rows[text] for text in texts], np.float32).reshape(len(texts), DIMENSIONS)

    def _is_ready(self, key: str) -> bool:
        if self._classifier is not None and self._key == key:
            return True
        if self._cache_dir is None or not _KEY.fullmatch(key):
            return False
        from .classifier import UNREADABLE, Classifier

        try:
            self._classifier = Classifier.load(self._file(key))
        except UNREADABLE:
            return False
        self._key = key
        return True

    def _file(self, key: str) -> Path:
        assert self._cache_dir is not None
        return self._cache_dir / f"{_FORM}-{key}.npz"

    def _files(self) -> list[Path]:
        """What is kept, newest first."""
        if self._cache_dir is None or not self._cache_dir.is_dir():
            return []
        return sorted(self._cache_dir.glob(f"{_FORM}-*.npz"), key=lambda path: -path.stat().st_mtime)

    def _known_vectors(self) -> dict[str, Any]:
        from .classifier import UNREADABLE, stored_vectors

        known: dict[str, Any] = {}
        for path in self._files():
            try:
                known = {**stored_vectors(path), **known}
            except UNREADABLE:
                path.unlink(missing_ok=True)
        return known

    def _keep(self, texts: list[str]) -> None:
        if self._cache_dir is None or self._classifier is None:
            return
        try:
            self._classifier.save(self._file(self._key), texts)
            for path in self._files()[_KEPT_FILES:]:
                path.unlink(missing_ok=True)
        except OSError:
            return  # a full disk costs the next start a fit, nothing else
