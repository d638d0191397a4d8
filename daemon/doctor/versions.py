"""What runs here: program, Python, packages, kernel; and what may leave."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from ..board import read_text
from .finding import Finding, fault, ok, warning
from .situation import Situation

_OLDEST = (3, 11)


def remote(situation: Situation) -> Finding:
    """Whether a model elsewhere could be reached."""
    return ok("remote", "Not configured: nothing leaves this board.")


def versions(situation: Situation) -> Finding:
    """This program, its interpreter, the kernel and the board."""
    machine = situation.machine
    own = version("famulus")
    model = read_text(machine.proc / "device-tree/model")
    kernel = read_text(machine.proc / "sys/kernel/osrelease") or platform.release()
    facts = [f"famulus {own}", f"Python {platform.python_version()}", f"Linux {kernel} {platform.machine()}", model]
    told = ", ".join(filter(None, facts))
    if sys.version_info < _OLDEST:
        return fault("versions", f"Python is too old: {told}.", "sudo apt install python3.11")
    running = situation.status.get("version", own)
    if running != own:
        message = f"famulus {running} runs, but this is the command of {own}."
        return warning("versions", message, machine.systemctl("restart"))
    return ok("versions", f"{told}.")


def packages(situation: Situation) -> Finding:
    """Every package that famulus is built on is installed."""
    found, absent = [], []
    for requirement in requires("famulus") or ():
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        if "extra ==" in requirement:
            continue
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            absent.append(name)
    if absent:
        return fault(
            "packages", f"Not installed: {', '.join(absent)}.", f"{sys.executable} -m pip install {' '.join(absent)}"
        )
    return ok("packages", f"{', '.join(found)}.")
