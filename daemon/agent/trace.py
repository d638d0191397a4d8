"""What a run did and when: its stages, each with its milliseconds, on the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Trace:
    """Collects the stages of one run. ``on_stage(name)`` is told when a stage begins."""

    def __init__(self, on_stage: Callable[[str], None] = lambda name: None) -> None:
        self._on_stage = on_stage
        self._ms: dict[str, float] = {}

    @property
    def stages_ms(self) -> dict[str, float]:
        """Milliseconds per stage so far, in the order they began."""
        return dict(self._ms)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside; the time counts also when it fails."""
        self._on_stage(name)
        started = time.monotonic()
        self._ms[name] = 0.0
        try:
            yield
        finally:
            self._ms[name] = (time.monotonic() - started) * 1000
