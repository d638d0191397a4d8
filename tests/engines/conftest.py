"""Recordings, model files and requests that every engine test may use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import soundfile
from famulus.models.catalogue import Catalogue
from famulus.models.store import Store, default_root

_AUDIO = Path(__file__).parents[1] / "data" / "audio"


class ManualJob:
    """A request that the test itself cancels."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        if self.cancelled:
            callback()
        self._callbacks.append(callback)

    def cancel(self) -> None:
        self._cancelled.set()
        for callback in self._callbacks:
            callback()


@pytest.fixture
def job() -> ManualJob:
    return ManualJob()


@pytest.fixture
def make_job() -> Callable[[], ManualJob]:
    return ManualJob


@pytest.fixture(scope="session")
def recording() -> Callable[[str], bytes]:
    """The samples of one file of tests/data/audio, 16 kHz mono s16le."""

    def read(name: str) -> bytes:
        samples, rate = soundfile.read(_AUDIO / f"{name}.flac", dtype="int16")
        assert rate == 16_000
        return samples.tobytes()

    return read


@pytest.fixture(scope="session")
def model_files() -> Callable[[str], dict[str, str]]:
    """Paths of one model of the catalogue, by the names its engine knows them by."""

    def paths(model_id: str) -> dict[str, str]:
        files = Store(default_root()).files(Catalogue.load().entry(model_id))
        return {name: str(path) for name, path in files.items()}

    return paths
