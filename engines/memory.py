"""How much memory there is, how much a process has, and whether a model fits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def mem_available(path: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that programs can still take without swapping; None where the kernel does not tell."""
    for line in _read(path).splitlines():
        name, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if name == "MemAvailable" and number.isdecimal() and unit == "kB":
            return int(number) * 1024
    return None


def rss_of(pid: int | str, proc: Path = Path("/proc")) -> int:
    """Resident bytes of a process (``"self"`` for this one); 0 when it is gone."""
    fields = _read(proc / str(pid) / "statm").split()
    return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0


@dataclass(frozen=True)
class Room:
    """What there is for models, in bytes: their budget, what they use of it, what the system has, its reserve."""

    budget: int
    used: int
    available: int | None
    reserve: int

    def fits(self, need: int, *, freed: int = 0) -> bool:
        """Whether ``need`` bytes fit once ``freed`` bytes of other models are given back."""
        if need > self.budget - self.used + freed:
            return False
        return self.available is None or need + self.reserve <= self.available + freed

    def __str__(self) -> str:
        available = "unknown" if self.available is None else _mb(self.available)
        return (
            f"models use {_mb(self.used)} of their budget of {_mb(self.budget)}, "
            f"and of the {available} of memory available {_mb(self.reserve)} stay in reserve"
        )


def refusal(name: str, need: int, room: Room, hint: str) -> str:
    """The sentence for a model that does not fit."""
    return f"{name} needs {_mb(need)}, which does not fit: {room}; {hint}."


def _mb(number: int) -> str:
    return f"{number / 1e6:.0f} MB"


def _read(path: Path) -> str:
    # Unbuffered and on the event loop: procfs is answered from the kernel's memory in microseconds.
    try:
        with path.open("rb", buffering=0) as file:
            return (file.read(1 << 16) or b"").decode("ascii", "replace")
    except OSError:
        return ""
