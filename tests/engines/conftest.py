"""Hosts, slots and pools on the fake engine, with every worker ended after each test."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from famulus.engines.host import Host
from famulus.engines.inprocess import InProcessHost
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost

HERE = Path(__file__).parent
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
