"""The loop guard over the folders that matter here, and a room to talk in."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

sys.path.insert(0, str(Path(__file__).parent))

from voice_fakes import Room


@pytest.fixture(autouse=True)
def loop_guard() -> Iterator[BlockBuster]:
    """The guard of tests/conftest.py, given the folders themselves."""
    import famulus.core
    import famulus.daemon
    import famulus.engines

    with blockbuster_ctx([famulus.core, famulus.daemon, famulus.engines]) as guard:
        yield guard


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    """A room that is left tidy; the test starts it."""
    made = Room()
    yield made
    if hasattr(made, "loop"):
        await made.loop.stop()
