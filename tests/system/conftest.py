"""A real systemd: this machine's own root under an overlay, booted with systemd-nspawn, thrown away afterwards.

It shares the network and pip's configuration with the host. Nothing it writes reaches the host's files.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKOUT = "/srv/famulus"

# Runs in a mount namespace of its own, which takes all these mounts with it when it ends.
_BOOT = """
set -eu
mount -t tmpfs -o size=6g tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
: >etc/machine-id
rm -rf etc/systemd/system/*.wants opt/famulus etc/famulus var/lib/famulus var/cache/famulus var/log/journal
rm -f etc/systemd/system/*famulus* etc/dbus-1/system.d/*famulus* usr/local/share/dbus-1/system-services/*famulus*
mkdir -p .%(checkout)s
exec systemd-nspawn -D "$1/root" --register=no --keep-unit --boot --console=pipe --quiet --kill-signal=SIGRTMIN+4
""" % {"checkout": CHECKOUT}  # noqa: UP031 - a shell script is full of braces


class Container:
    """Runs commands as root, or as another user, beside a booted systemd."""

    def __init__(self, nspawn: subprocess.Popen[bytes], init: int) -> None:
        self._nspawn = nspawn
        self._init = init

    def run(
        self, *command: str, user: str = "root", timeout: float = 30, check: bool = True, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; its output as text. ``timeout`` in seconds. Fails the test where it fails."""
        done = subprocess.run(
            self._enter(user, command),
            check=False,
            capture_output=True,
            timeout=timeout,
            input=stdin,
            env=_environment(),
        )
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if check and done.returncode:
            pytest.fail(f"{' '.join(command)} ended with {done.returncode}\n{out}\n{err}", pytrace=True)
        return subprocess.CompletedProcess(command, done.returncode, out, err)

    def spawn(self, *command: str, user: str = "root") -> subprocess.Popen[bytes]:
        """Start a command that goes on; the test ends it."""
        return subprocess.Popen(
            self._enter(user, command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
        )

    def show(self, *properties: str, unit: str = "famulus.service") -> dict[str, str]:
        """Properties of a unit."""
        text = self.run("systemctl", "show", unit, "--property", ",".join(properties)).stdout
        return dict(line.split("=", 1) for line in text.splitlines())

    def main_pid(self) -> int:
        return int(self.show("MainPID")["MainPID"])

    def stop(self) -> None:
        """Shut it down in order, and within 20 s."""
        try:
            os.kill(self._init, signal.SIGRTMIN + 4)
            self._nspawn.wait(15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            self._nspawn.kill()
            self._nspawn.wait(5)

    def _enter(self, user: str, command: tuple[str, ...]) -> list[str]:
        # nsenter forks: without pdeathsig the command would outlive it.
        identity = [] if user == "root" else [f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return ["nsenter", "-t", str(self._init), "-a", "setpriv", "--pdeathsig=KILL", *identity, "--", *command]


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "FAMULUS_WHEEL"))}
    home = os.environ.get("HOME", "/root")
    return {**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8"}


def eventually(what: str, condition: Callable[[], object], within_s: float = 10) -> None:
    """Wait until ``condition`` holds; fail with ``what`` after ``within_s`` seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:g} s: {what}")
        time.sleep(0.05)


def _reason_to_skip() -> str:
    if os.geteuid() != 0:
        return "needs root, to boot a systemd of its own"
    missing = [name for name in ("systemd-nspawn", "nsenter", "unshare", "busctl") if shutil.which(name) is None]
    if missing:
        return f"needs {', '.join(missing)} (apt-get install systemd-container dbus)"
    if subprocess.run(["unshare", "--mount", "--propagation", "private", "true"], check=False).returncode:
        return "needs to make mounts of its own, which a chroot may not"
    if not any(wheel_cache().glob("*/llama_cpp_python-*.whl")):
        return "needs the wheels that script/setup builds"
    return ""


def wheel_cache() -> Path:
    """Where script/setup keeps the wheels that it builds."""
    return Path(os.environ.get("FAMULUS_WHEEL_CACHE", "") or Path.home() / ".cache/famulus/wheels")


@pytest.fixture(scope="session")
def container() -> Iterator[Container]:
    """A booted systemd with the checkout in ``CHECKOUT``; famulus is not installed in it yet."""
    if reason := _reason_to_skip():
        pytest.skip(reason)
    place = tempfile.mkdtemp(prefix="famulus-system-")
    log = Path(tempfile.mkstemp(prefix="famulus-console-")[1])
    with log.open("wb") as console:
        nspawn = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "bash", "-c", _BOOT, "bash", place],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
    booted: Container | None = None
    try:
        booted = Container(nspawn, _init_of(nspawn, log))
        eventually(
            "systemd is up",
            lambda: booted.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"),
            within_s=30,
        )
        _copy_checkout(booted)
        yield booted
    finally:
        if booted is not None:
            booted.stop()
        elif nspawn.poll() is None:
            nspawn.kill()
            nspawn.wait(5)
        log.unlink()
        Path(place).rmdir()


def _init_of(nspawn: subprocess.Popen[bytes], log: Path) -> int:
    """The pid, here, of the container's init."""
    children = Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children")
    found: list[str] = []

    def has_init() -> bool:
        if nspawn.poll() is not None:
            pytest.fail(f"the container did not boot:\n{log.read_text(errors='replace')}")
        found[:] = [pid for pid in children.read_text().split() if _comm(pid) == "systemd"]
        return bool(found)

    eventually("the container has an init", has_init, within_s=20)
    return int(found[0])


def _comm(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _copy_checkout(container: Container) -> None:
    names = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    present = b"\0".join(name for name in names.split(b"\0") if name and (ROOT / os.fsdecode(name)).is_file())
    packed = subprocess.run(
        ["tar", "--null", "--files-from=-", "-cf", "-"], cwd=ROOT, input=present, capture_output=True, check=True
    ).stdout
    container.run("tar", "-xf", "-", "-C", CHECKOUT, stdin=packed)
