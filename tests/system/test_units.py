"""The unit files as files: no systemd need run for these."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"

needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


def analyze(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit status and the output of systemd-analyze."""
    done = subprocess.run(
        ["systemd-analyze", *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
    )
    return done.returncode, done.stdout


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """famulus.service with a program that is there on every machine."""
    copy = tmp_path / "famulus.service"
    copy.write_text((UNITS / "famulus.service").read_text().replace("/opt/famulus/current/bin/famulusd", "/bin/true"))
    return copy


@needs_analyze
def test_systemd_finds_nothing_to_complain_about(unit: Path) -> None:
    assert analyze("verify", str(unit)) == (0, "")


@needs_analyze
def test_the_user_unit_is_valid_too(tmp_path: Path) -> None:
    copy = tmp_path / "famulus.service"
    text = (UNITS / "user" / "famulus.service").read_text()
    copy.write_text(text.replace("%h/.local/share/famulus/current/bin/famulusd", "/bin/true"))
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    assert analyze("--user", "verify", str(copy), environment=environment) == (0, "")


@needs_analyze
def test_the_exposure_is_at_most_two(unit: Path) -> None:
    status, output = analyze("security", "--offline=yes", "--threshold=20", "--no-pager", str(unit))
    assert status == 0, output
