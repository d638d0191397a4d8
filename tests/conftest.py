"""Fixtures every test may use, and the guard that fails a test whose code blocks the event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster, blockbuster_ctx


@pytest.fixture(autouse=True)
def loop_guard() -> Iterator[BlockBuster]:
    """Raise BlockingError where famulus code does blocking I/O on the event loop."""
    with blockbuster_ctx("famulus") as guard:
        yield guard
