"""What a suite found, beside what it ran on: JSON for machines, aligned tables for people."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .compare import Earlier, Verdict
from .condition import Condition
from .machine import changes, fingerprint, machine_line
from .measurement import Better, Measurement, measured, spread

__all__ = [
    "Better",
    "Cell",
    "Comparison",
    "Measurement",
    "Report",
    "Table",
    "fingerprint",
    "machine_line",
    "measured",
    "render",
    "shown",
    "spread",
]

Cell = str | float | int | bool | None

MEASUREMENT_COLUMNS = ("subject", "figure", "unit", "n", "median", "p90", "min", "max", "budget", "why empty")
COMPARISON_COLUMNS = ("subject", "figure", "unit", "before", "now", "verdict")


@dataclass(frozen=True)
class Table:
    """``None`` is a cell that was not measured: it stays empty."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Comparison:
    """This run against an earlier one."""

    earlier: Earlier
    verdicts: tuple[Verdict, ...]

    @property
    def regressions(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.regression]


@dataclass(frozen=True)
class Report:
    """What one suite gives, ``parameters`` and ``results`` as plain JSON values.

    ``machine`` is :func:`fingerprint`, taken before the work; ``ok`` is False where something went wrong.
    ``measurements`` hold the raw samples that later runs are compared with. The program around the suites fills in
    ``before``, ``after`` and ``comparison``.
    """

    suite: str
    machine: dict[str, Any]
    parameters: dict[str, Any]
    results: dict[str, Any]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    ok: bool = True
    when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    measurements: tuple[Measurement, ...] = ()
    about: str = ""
    before: Condition | None = None
    after: Condition | None = None
    comparison: Comparison | None = None

    def all_tables(self) -> tuple[Table, ...]:
        """The suite's own tables, then its measurements, then the comparison."""
        tables = list(self.tables)
        if self.measurements:
            tables.append(measurement_table(self.measurements))
        if self.comparison is not None:
            tables.append(comparison_table(self.comparison))
        return tuple(tables)

    def remarks(self) -> list[str]:
        """The notes, what the comparison is with, and each regression."""
        said = list(self.notes)
        if self.comparison is not None:
            earlier = self.comparison.earlier
            differs = "; ".join(changes(earlier.machine, self.machine)) or "nothing in versions, models or settings"
            said.append(f"Compared with {earlier.path.name} of {earlier.when}; changed since: {differs}.")
            if earlier.parameters != json.loads(json.dumps(self.parameters)):
                said.append("The earlier run had other parameters, so the two are only roughly alike.")
            said += [
                f"REGRESSION: {verdict.measurement.subject}, {verdict.measurement.figure}: {verdict.text}."
                for verdict in self.comparison.regressions
            ]
        return said

    def text(self) -> str:
        parts = [f"{self.suite}, {self.when}", machine_line(self.machine)]
        if self.before is not None and self.after is not None:
            parts += [f"before: {self.before.text()}", f"after:  {self.after.text()}"]
        parts.append("")
        for table in self.all_tables():
            parts += [table.title, render(table), ""]
        parts += self.remarks()
        return "\n".join(parts).rstrip() + "\n"

    def to_dict(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "suite": self.suite,
            "when": self.when,
            "ok": self.ok,
            "machine": self.machine,
            "before": None if self.before is None else self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "parameters": self.parameters,
            "measurements": [measurement.to_dict() for measurement in self.measurements],
            "results": self.results,
            "notes": list(self.notes),
        }
        if self.comparison is not None:
            body["compared_with"] = {"when": self.comparison.earlier.when, "file": self.comparison.earlier.path.name}
            body["verdicts"] = [verdict.to_dict() for verdict in self.comparison.verdicts]
        return body

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n", "utf-8")


def measurement_table(measurements: Sequence[Measurement]) -> Table:
    """One row per measurement; columns that are empty everywhere are left out."""
    rows: list[tuple[Cell, ...]] = [
        (m.subject, m.figure, m.unit, *spread(m.samples).values(), m.budget or None, m.reason or None)
        for m in measurements
    ]
    return _without_empty(Table("measurements", MEASUREMENT_COLUMNS, tuple(rows)), ("budget", "why empty"))


def comparison_table(comparison: Comparison) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            verdict.measurement.subject,
            verdict.measurement.figure,
            verdict.measurement.unit,
            spread(verdict.old.samples)["median"] if verdict.old else None,
            spread(verdict.measurement.samples)["median"],
            verdict.text,
        )
        for verdict in comparison.verdicts
    ]
    return Table(f"against the run of {comparison.earlier.when}", COMPARISON_COLUMNS, tuple(rows))


def render(table: Table) -> str:
    """Columns aligned, numbers to the right, an empty cell for None."""
    cells = [[shown(cell) for cell in row] for row in table.rows]
    widths = [max(len(text) for text in column) for column in zip(table.columns, *cells, strict=True)]
    numeric = numeric_columns(table)

    def line(row: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  " + "  ".join(padded).rstrip()

    return "\n".join([line(table.columns), line(["-" * width for width in widths]), *map(line, cells)])


def numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers."""
    return [any(isinstance(row[index], int | float) for row in table.rows) for index in range(len(table.columns))]


def shown(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        size = abs(cell)
        return f"{cell:.0f}" if size >= 100 else f"{cell:.1f}" if size >= 10 else f"{cell:.2f}"
    return str(cell)


def _without_empty(table: Table, columns: tuple[str, ...]) -> Table:
    kept = [
        index
        for index, name in enumerate(table.columns)
        if name not in columns or any(row[index] is not None for row in table.rows)
    ]
    return Table(
        table.title,
        tuple(table.columns[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in table.rows),
    )
