"""One figure that a suite measured several times: its raw samples, so that it can be compared with a later run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["lower", "higher", ""]


@dataclass(frozen=True)
class Measurement:
    """``samples`` in ``unit``; none of them with a ``reason`` where it could not be measured.

    ``subject`` is what was measured (a model, a process), ``figure`` what of it; together they name the measurement
    in every run. ``better`` tells which way is an improvement, ``""`` where neither is.
    """

    subject: str
    figure: str
    unit: str
    samples: tuple[float, ...]
    better: Better = "lower"
    budget: str = ""
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What a measurement of another run must share to be the same one."""
        return self.subject, self.figure, self.unit

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with the spread for readers that do not want to compute it."""
        return {
            "subject": self.subject,
            "figure": self.figure,
            "unit": self.unit,
            "better": self.better,
            "budget": self.budget,
            "reason": self.reason,
            **spread(self.samples),
            "samples": [float(f"{value:.6g}") for value in self.samples],
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Measurement:
        """The inverse of :meth:`to_dict`. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for another shape."""
        return cls(
            subject=str(value["subject"]),
            figure=str(value["figure"]),
            unit=str(value["unit"]),
            samples=tuple(float(sample) for sample in value["samples"]),
            better=value["better"],
            budget=str(value.get("budget", "")),
            reason=str(value.get("reason", "")),
        )


def measured(
    subject: str,
    figure: str,
    unit: str,
    samples: Iterable[float | None],
    better: Better = "lower",
    *,
    budget: str = "",
    reason: str = "",
) -> Measurement:
    """A measurement of the samples that are there; ``reason`` is kept only where none is."""
    there = tuple(float(sample) for sample in samples if sample is not None)
    missing = "" if there else reason or "it was not measured"
    return Measurement(subject, figure, unit, there, better, budget, missing)


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """N, median, p90 (nearest rank, so a value that was seen), minimum and maximum; None where N is 0."""
    ordered = sorted(values)
    if not ordered:
        return {"n": 0, "median": None, "p90": None, "min": None, "max": None}
    rank = -(-len(ordered) * 9 // 10)
    return {
        "n": len(ordered),
        "median": round(statistics.median(ordered), 3),
        "p90": round(ordered[rank - 1], 3),
        "min": round(ordered[0], 3),
        "max": round(ordered[-1], 3),
    }
