"""What script/install says before it touches anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "script" / "install"


def run(*options: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", INSTALL, *options], check=False, capture_output=True, text=True, timeout=20, user=user
    )


def test_help_names_every_option() -> None:
    text = run("--help").stdout
    assert all(option in text for option in ("--user", "--prefix", "--no-models", "--uninstall", "--yes", "--help"))


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--usr",), "script/install --help"),
        (("--prefix",), "--prefix needs a folder"),
        (("--prefix", "/opt/my famulus"), "letters, digits"),
        (("--prefix", "/"), "a folder of its own"),
        (("--prefix", "/home/pi/famulus"), "lies in a home"),
    ],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_wrong_option_is_told(options: tuple[str, ...], hint: str) -> None:
    done = run(*options)
    assert (done.returncode, done.stdout) == (1, "")
    assert hint in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_does_not_install_into_a_session() -> None:
    assert "run it as that person" in run("--user").stderr
