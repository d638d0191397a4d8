"""Storage: is there room, and does the memory card last?"""

from __future__ import annotations

import re
from pathlib import Path

from ..board import read_text
from .disks import disk_of_path, mount_of, nearest
from .finding import Finding, fault, ok, warning
from .machine import Machine
from .situation import Situation

_SCARCE, _TIGHT = 50_000_000, 300_000_000
_CLEAN = "sudo apt clean && sudo journalctl --vacuum-size=50M"
_LIMIT = (
    "sudo mkdir -p /etc/systemd/journald.conf.d"
    " && printf '[Journal]\\nSystemMaxUse=50M\\n' | sudo tee /etc/systemd/journald.conf.d/50-card.conf"
    " && sudo systemctl restart systemd-journald"
)


def disk_space(situation: Situation) -> Finding:
    """Where state, cache and models lie there is room, and it may be written to."""
    name, machine = "disk space", situation.machine
    folders = {
        "state": situation.state_dir,
        "cache": situation.cache_dir,
        "models": situation.models_dir,
    }
    free: dict[str, int] = {}
    for what, folder in folders.items():
        mount = mount_of(machine, folder)
        if what == "state" and mount is not None and "ro" in mount.options:
            message = f"{mount.point} is read-only: timers do not outlive a restart."
            return warning(name, message, f"sudo mount -o remount,rw {mount.point}")
        free[f"{folder} ({what})"] = machine.free_bytes(nearest(folder))
    where = min(free, key=lambda folder: free[folder])
    left = f"{free[where] / 1e6:,.0f} MB are free for {where}"
    if free[where] < _SCARCE:
        return fault(name, f"Only {left}.", _CLEAN)
    if free[where] < _TIGHT:
        return warning(name, f"Only {left}.", _CLEAN)
    return ok(name, f"{left}, and no less elsewhere.")


def wear(situation: Situation) -> Finding:
    """A memory card is not written to for nothing: by the journal, or by noting when files were read."""
    name, machine = "wear", situation.machine
    state = situation.state_dir
    disk, mount = disk_of_path(machine, state), mount_of(machine, state)
    if disk is None or mount is None or not disk.is_card:
        return ok(name, f"{state} does not lie on a memory card.")
    journal = _journal(machine)
    on_card = disk_of_path(machine, Path("/var/log/journal"))
    stored = journal.get("Storage", "auto")
    persistent = stored == "persistent" or (stored == "auto" and (machine.var / "log/journal").is_dir())
    if persistent and on_card is not None and on_card.is_card and "SystemMaxUse" not in journal:
        return warning(name, "The journal is kept on the memory card without a limit.", _LIMIT)
    if "noatime" not in mount.options:
        message = f"{mount.point} on the memory card notes when files are read (no noatime)."
        mend = f"sudo mount -o remount,noatime {mount.point}, and noatime for {mount.point} in /etc/fstab"
        return warning(name, message, mend)
    return ok(name, f"{state} lies on a memory card that is spared ({disk.name}).")


def _journal(machine: Machine) -> dict[str, str]:
    """What journald.conf and its drop-ins set; of a key that is set twice, the last."""
    folder = machine.etc / "systemd"
    found: dict[str, str] = {}
    for file in (folder / "journald.conf", *sorted((folder / "journald.conf.d").glob("*.conf"))):
        found.update(re.findall(r"^(\w+)=(.+?)\s*$", read_text(file), re.MULTILINE))
    return found
