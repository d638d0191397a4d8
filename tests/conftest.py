"""Fixtures every test may use, and the guard that fails a test whose code blocks the event loop."""

from __future__ import annotations

from collections.abc import Iterator

import famulus.capabilities
import famulus.client
import famulus.core
import famulus.daemon
import famulus.engines
import famulus.models
import pytest
from blockbuster import BlockBuster, blockbuster_ctx

# The packages themselves: `famulus` is a namespace whose path, in an editable install, leads nowhere.
ROOMS = [famulus.core, famulus.engines, famulus.capabilities, famulus.models, famulus.client, famulus.daemon]


@pytest.fixture(autouse=True)
def loop_guard() -> Iterator[BlockBuster]:
    """Raise BlockingError where famulus code does blocking I/O on the event loop."""
    with blockbuster_ctx(ROOMS) as guard:
        yield guard
