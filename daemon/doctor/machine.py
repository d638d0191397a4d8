"""The machine as the checks see it: where its files lie, who asks, which programs it has."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ..board import read_text
from .timekeeping import synchronised

_UNIT = "famulus.service"


def is_there(path: Path) -> bool:
    """Whether the path exists, as far as this user may know."""
    try:
        return path.exists()
    except OSError:
        return False


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


@dataclass(frozen=True)
class Machine:
    """Everything that a check reads comes through here, so that a laid-out folder can stand for a board.

    ``free_bytes`` tells the room below a folder, ``is_synchronised`` whether the clock is set by a time server
    (None: not known), ``now`` the seconds since 1970. ``environ`` also says where programs are looked for.
    """

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")
    dev: Path = Path("/dev")
    run: Path = Path("/run")
    usr: Path = Path("/usr")
    var: Path = Path("/var")
    home: Path = field(default_factory=Path.home)
    user: str = field(default_factory=_user_name)
    uid: int = field(default_factory=os.geteuid)
    gids: frozenset[int] = field(default_factory=lambda: frozenset((os.getegid(), *os.getgroups())))
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    is_synchronised: Callable[[], bool | None] = synchronised
    now: Callable[[], float] = time.time

    @classmethod
    def below(cls, root: Path, **others: Any) -> Self:
        """The machine whose file system lies below ``root``."""
        names = ("proc", "sys", "etc", "dev", "run", "usr", "var", "home")
        return cls(**{name: root / name for name in names} | others)

    @property
    def system_unit(self) -> str:
        """The text of the system service's unit, ``""`` where it is not installed."""
        return read_text(self.etc / "systemd/system" / _UNIT)

    @property
    def has_user_unit(self) -> bool:
        """Whether famulus is a service of this user's session."""
        base = self.environ.get("XDG_CONFIG_HOME", "")
        return is_there((Path(base) if base else self.home / ".config") / "systemd/user" / _UNIT)

    @property
    def service_user(self) -> str:
        """Who famulus runs as: the unit's user, else whoever asks."""
        unit = self.system_unit
        if not unit:
            return self.user
        named = re.search(r"^User=(\S+)", unit, re.MULTILINE)
        return named[1] if named else "root"

    @property
    def runtime_dir(self) -> Path:
        """Where the sockets of this user's session lie."""
        return Path(self.environ.get("XDG_RUNTIME_DIR") or self.run / "user" / str(self.uid))

    def systemctl(self, verb: str) -> str:
        """The command that starts or restarts famulus here."""
        if self.system_unit:
            return f"sudo systemctl {verb} famulus"
        if self.has_user_unit:
            return f"systemctl --user {verb} famulus"
        return "famulusd" if verb == "start" else f"end famulusd and start it again, to {verb} it"

    def memory(self) -> dict[str, int]:
        """``/proc/meminfo`` in bytes."""
        lines = re.findall(r"^(\w+):\s+(\d+) kB", read_text(self.proc / "meminfo"), re.MULTILINE)
        return {name: int(number) * 1024 for name, number in lines}

    def output(self, *command: str, timeout_s: float = 3.0) -> str:
        """What a program prints; ``""`` where it is absent, fails or hangs."""
        program = shutil.which(command[0], path=self.environ.get("PATH", os.defpath))
        if program is None:
            return ""
        try:
            done = subprocess.run(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=True,
                env=dict(self.environ),
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.strip()
