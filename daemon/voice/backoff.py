"""How long to wait before trying again."""

from __future__ import annotations

import time
from collections.abc import Callable


class Backoff:
    """Delays that double from ``first_s`` to ``limit_s``, and start over after ``calm_s`` without a failure."""

    def __init__(
        self,
        first_s: float = 0.2,
        limit_s: float = 10.0,
        *,
        calm_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._calm_s = calm_s
        self._clock = clock
        self._delay_s = 0.0
        self._failed_at = 0.0

    def next(self) -> float:
        """Note a failure; returns the seconds to wait."""
        now = self._clock()
        calm = now - self._failed_at > self._delay_s + self._calm_s
        self._delay_s = self._first_s if calm or not self._delay_s else min(self._limit_s, self._delay_s * 2)
        self._failed_at = now
        return self._delay_s
