"""What the kernel tells about sound devices when opening one fails: who holds it, and whether we may."""

from __future__ import annotations

import os
import re
from pathlib import Path

_HARDWARE_NAME = re.compile(r"\(hw:(\d+),(\d+)\)")  # how PortAudio names a device that is no plugin


def holder(device_name: str, *, proc: Path = Path("/proc")) -> str:
    """``name (process id)`` of the process that records from the hardware device; ``""`` if none is known."""
    match = _HARDWARE_NAME.search(device_name)
    if match is None:
        return ""
    card, device = match.groups()
    for status in sorted((proc / "asound" / f"card{card}" / f"pcm{device}c").glob("sub*/status")):
        owner = re.search(r"owner_pid\s*:\s*(\d+)", _read(status))
        if owner is not None and int(owner[1]) != os.getpid():
            name = _read(proc / owner[1] / "comm").strip() or "a process"
            return f"{name} ({owner[1]})"
    return ""


def forbidden(*, devices: Path = Path("/dev/snd")) -> bool:
    """Whether there are capture devices and this process may open none of them."""
    nodes = list(devices.glob("pcmC*D*c"))
    return bool(nodes) and not any(os.access(node, os.R_OK | os.W_OK) for node in nodes)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
