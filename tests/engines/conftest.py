"""Hosts, slots and pools on the fake engine, every worker ended after each test; recordings, models and requests."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from blockbuster import BlockBuster, blockbuster_ctx
from famulus.engines.host import Host
from famulus.engines.inprocess import InProcessHost
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.models.catalogue import Catalogue
from famulus.models.store import Store, default_root

HERE = Path(__file__).parent
_AUDIO = HERE.parent / "data" / "audio"
GB = 1 << 30

OpenHost = Callable[..., Host]


@pytest.fixture(autouse=True)
def loop_guard() -> Iterator[BlockBuster]:
    """The guard of tests/conftest.py, given the folders themselves."""
    import famulus.core
    import famulus.engines

    with blockbuster_ctx([famulus.core, famulus.engines]) as guard:
        yield guard


def process_host(**options: Any) -> ProcessHost:
    return ProcessHost("fake_engine:Fake", options, name="fake", python_path=[HERE])


def in_process_host(**options: Any) -> InProcessHost:
    return InProcessHost("fake_engine:Fake", options, name="fake")


@pytest.fixture(params=["process", "thread"])
async def open_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenHost]:
    """Makes hosts of both kinds: what holds for one must hold for the other."""
    monkeypatch.syspath_prepend(str(HERE))
    hosts: list[Host] = []

    def make(**options: Any) -> Host:
        host = process_host(**options) if request.param == "process" else in_process_host(**options)
        hosts.append(host)
        return host

    yield make
    await asyncio.gather(*(host.kill() for host in hosts))
    sys.modules.pop("fake_engine", None)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(8 * GB, 0)
    yield pool
    await pool.close()


async def until(condition: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Wait for a condition that no event announces."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.005)


@pytest.fixture
def eventually() -> Callable[..., Awaitable[None]]:
    return until


@pytest.fixture
def fake_process() -> Callable[..., ProcessHost]:
    """Makes worker processes with the fake engine; the pool's fixture, or the test, ends them."""
    return process_host


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
