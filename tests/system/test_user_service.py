"""famulus in a person's own session: script/install --user under that person's systemd and session bus."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from .conftest import CHECKOUT, Container, eventually, wheel_cache

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

Run = Callable[..., subprocess.CompletedProcess[str]]
HOME = "/home/carol"


@pytest.fixture(scope="session")
def as_carol(container: Container) -> Run:
    """Runs a command in the session of carol, who has no rights of her own and the wheels in her cache."""
    container.run("useradd", "--create-home", "carol")
    container.run("mkdir", "-p", f"{HOME}/.cache/famulus")
    container.run("cp", "-r", str(wheel_cache()), f"{HOME}/.cache/famulus/wheels")
    container.run("chown", "-R", "carol:", f"{HOME}/.cache")
    container.run("loginctl", "enable-linger", "carol")
    uid = container.run("id", "-u", "carol").stdout.strip()
    eventually(
        "carol has a session",
        lambda: container.run("systemctl", "is-active", f"user@{uid}.service", check=False).returncode == 0,
        within_s=20,
    )

    def run(*command: str, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        session = ["env", "-u", "FAMULUS_WHEEL_CACHE", f"HOME={HOME}", f"XDG_RUNTIME_DIR=/run/user/{uid}"]
        return container.run(*session, *command, user="carol", check=check, timeout=timeout)

    return run


def test_it_is_installed_answers_is_started_by_a_call_and_removed(as_carol: Run) -> None:
    as_carol(f"{CHECKOUT}/script/install", "--user", "--no-models", "--yes", timeout=110)
    assert as_carol("systemctl", "--user", "is-enabled", "famulus.service").stdout.strip() == "enabled"
    as_carol("systemctl", "--user", "stop", "famulus.service")
    call = ("org.famulus.Agent", "/org/famulus/Agent", "org.famulus.Agent1", "Ask", "sa{sv}", "what time is it", "0")
    assert '"status" s "done"' in as_carol("busctl", "--user", "call", *call).stdout
    as_carol(f"{CHECKOUT}/script/install", "--user", "--uninstall", "--yes")
    assert as_carol("systemctl", "--user", "cat", "famulus.service", check=False).returncode != 0
    left = as_carol("find", HOME, "-name", "*famulus*", "-not", "-path", "*/.cache/*").stdout.split()
    assert sorted(left) == [f"{HOME}/.config/famulus", f"{HOME}/.config/famulus/famulus.toml"]
