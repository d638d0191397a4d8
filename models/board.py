"""What this machine has for models: memory, cores, the kind of processor, and room on the disk."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import Failed


@dataclass(frozen=True)
class Board:
    """Sizes in bytes; ``memory_free`` is what programs can take now without swapping."""

    name: str
    architecture: str
    cores: int
    memory: int
    memory_free: int
    disk_free: int


def read_board(folder: Path, *, root: Path = Path("/"), architecture: str = "") -> Board:
    """The board whose kernel is seen below ``root``; ``folder`` is where models are kept, or will be.

    Raises ``Failed`` where the kernel does not tell the memory.
    """
    memory = _meminfo(root / "proc/meminfo")
    if "MemTotal" not in memory:
        raise Failed(f"The memory of this machine is not to be had from {root / 'proc/meminfo'}; is /proc mounted?")
    return Board(
        name=_text(root / "proc/device-tree/model") or _text(root / "sys/class/dmi/id/product_name") or "unknown board",
        architecture=architecture or platform.machine(),
        cores=_count(_text(root / "sys/devices/system/cpu/online")),
        memory=memory["MemTotal"],
        memory_free=memory.get("MemAvailable", memory["MemTotal"]),
        disk_free=shutil.disk_usage(next(there for there in (folder, *folder.parents) if there.exists())).free,
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip("\0\n ")
    except OSError:
        return ""


def _meminfo(path: Path) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        number, _, unit = value.strip().partition(" ")
        if number.isdecimal() and unit == "kB":
            found[name] = int(number) * 1024
    return found


def _count(ranges: str) -> int:
    """``0-3,6`` as 5; 1 where nothing is told."""
    count = 0
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        if first.isdecimal():
            count += (int(last) if last.isdecimal() else int(first)) - int(first) + 1
    return max(count, 1)
