"""What the kernel tells about sound devices when opening one fails: who holds it, and whether we may."""

from __future__ import annotations

import os
import re
from pathlib import Path

_HARDWARE = re.compile(r"\(hw:(\d+),(\d+)\)")  # how PortAudio ends the name of a device that is no plugin
_PCM = re.compile(r"card(\d+)/pcm(\d+)c$")


def holder(device: str, *, proc: Path = Path("/proc")) -> str:
    """``name (process id)`` of the process that keeps a capture device busy; ``""`` if none is known.

    ``device`` is PortAudio's name of a hardware device, or a part of the name of a sound card as the kernel gives
    it, ignoring case; ``""`` stands for any. A busy device may be missing from PortAudio's list altogether.
    """
    hardware = _HARDWARE.search(device)
    for pcm in sorted((proc / "asound").glob("card*/pcm*c")):
        match = _PCM.search(pcm.as_posix())
        if match is None:
            continue
        if hardware is None:
            wanted = device.casefold() in _card_name(proc, match[1]).casefold()
        else:
            wanted = match.groups() == hardware.groups()
        if wanted and (owner := _owner(pcm)):
            name = _read(proc / owner / "comm").strip() or "a process"
            return f"{name} ({owner})"
    return ""


def forbidden(*, devices: Path = Path("/dev/snd")) -> bool:
    """Whether there are capture devices and this process may open none of them."""
    nodes = list(devices.glob("pcmC*D*c"))
    return bool(nodes) and not any(os.access(node, os.R_OK | os.W_OK) for node in nodes)


def _owner(pcm: Path) -> str:
    """The process id of another process that holds the device; a device with a free substream is not held."""
    owners = [re.search(r"owner_pid\s*:\s*(\d+)", _read(status)) for status in sorted(pcm.glob("sub*/status"))]
    others = [owner[1] for owner in owners if owner is not None and int(owner[1]) != os.getpid()]
    return others[0] if others and len(others) == len(owners) else ""


def _card_name(proc: Path, card: str) -> str:
    match = re.search(rf"^\s*{card} \[.*", _read(proc / "asound" / "cards"), re.MULTILINE)
    return match[0] if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
