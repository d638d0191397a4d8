"""What Linux tells about processes: memory, processor time, context switches, children.

Sources: ``proc(5)``. RSS counts shared pages whole, PSS by share, USS only what is private. All reads are
synchronous; call them through ``asyncio.to_thread`` on a loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KIB_PER_MB = 1024.0


@dataclass(frozen=True)
class Memory:
    """Megabytes (MiB). ``pss`` and ``uss`` are None where the kernel does not tell."""

    rss: float
    pss: float | None
    uss: float | None


@dataclass(frozen=True)
class Usage:
    """Totals since the process began."""

    cpu_s: float
    switches: int


def command(pid: int) -> str:
    """The command line in one string, ``""`` for a process that is gone."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def has_mapped(pid: int, library: str) -> bool:
    """Whether the process has a file in memory whose path holds ``library``."""
    try:
        return library in (_PROC / str(pid) / "maps").read_text("utf-8", "replace")
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """Children of ``pid``, their children, and so on; the oldest first."""
    parents: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in sorted(parents.get(waiting.pop(0), [])):
            found.append(child)
            waiting.append(child)
    return found


def memory(pid: int) -> Memory | None:
    """None for a process that is gone."""
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except OSError:
        return _memory_from_status(pid)
    kib = _fields(text.splitlines())
    if "Rss" not in kib:  # a zombie
        return None
    uss = kib.get("Private_Clean", 0) + kib.get("Private_Dirty", 0) + kib.get("Private_Hugetlb", 0)
    pss = kib.get("Pss")
    return Memory(rss=kib["Rss"] / _KIB_PER_MB, pss=None if pss is None else pss / _KIB_PER_MB, uss=uss / _KIB_PER_MB)


def usage(pid: int) -> Usage | None:
    """None for a process that is gone."""
    fields = _stat(pid)
    if fields is None:
        return None
    switches = 0
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            counts = _fields((thread / "status").read_text().splitlines())
            switches += counts.get("voluntary_ctxt_switches", 0) + counts.get("nonvoluntary_ctxt_switches", 0)
    except OSError:
        pass  # a thread or the process ended while we read
    return Usage(cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S, switches=switches)


def _memory_from_status(pid: int) -> Memory | None:
    try:
        kib = _fields((_PROC / str(pid) / "status").read_text().splitlines())
    except OSError:
        return None
    return Memory(rss=kib["VmRSS"] / _KIB_PER_MB, pss=None, uss=None) if "VmRSS" in kib else None


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on, so index 1 is the parent; the name before may hold spaces."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _fields(lines: Iterable[str]) -> dict[str, int]:
    """``Name: 123 kB`` lines as numbers; other lines are left out."""
    found = {}
    for line in lines:
        name, _, rest = line.partition(":")
        value = rest.split()
        if value and value[0].isdigit():
            found[name] = int(value[0])
    return found
