"""Which disk a folder lies on, and what kind of disk that is. Sources: ``proc(5)``, sysfs of the block layer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..board import read_text
from .machine import Machine, is_there


@dataclass(frozen=True)
class Mount:
    """A line of ``mountinfo``; ``options`` are those of the mount and of the file system."""

    device: str
    point: Path
    options: frozenset[str]
    kind: str
    source: str


@dataclass(frozen=True)
class Disk:
    """A whole disk, by its kernel name such as ``mmcblk0``."""

    name: str
    is_card: bool
    """An SD card, which wears out and has no say in where it is written; not soldered eMMC."""


def mount_of(machine: Machine, path: Path) -> Mount | None:
    """The mount that holds ``path``, which need not exist; None where the kernel names none."""
    best = None
    for line in read_text(machine.proc / "self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) < 6 or len(right) < 2:
            continue
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), left[4]))
        if path.is_relative_to(point) and (best is None or len(point.parts) >= len(best.point.parts)):
            options = frozenset((*left[5].split(","), *(right[2].split(",") if len(right) > 2 else ())))
            best = Mount(left[2], point, options, right[0], right[1])
    return best


def disk_of_path(machine: Machine, path: Path) -> Disk | None:
    """The disk below ``path``; None for memory, networks and overlays."""
    mount = mount_of(machine, path)
    if mount is None:
        return None
    return _disk(machine.sys / "dev/block" / mount.device) or disk_of_device(machine, mount.source)


def disk_of_device(machine: Machine, device: str) -> Disk | None:
    """The disk of a partition such as ``/dev/mmcblk0p2``."""
    return _disk(machine.sys / "class/block" / Path(device).name) if device.startswith("/dev/") else None


def _disk(link: Path) -> Disk | None:
    try:
        block = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    disk = block.parent if (block / "partition").exists() else block
    return Disk(disk.name, read_text(disk / "device/type") == "SD")


def nearest(folder: Path) -> Path:
    """The folder, or the first one above it that is there."""
    while folder != folder.parent and not is_there(folder):
        folder = folder.parent
    return folder
