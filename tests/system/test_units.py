"""The unit files as files: no systemd need run for these."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"

needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """famulus.service with a program that is there on every machine."""
    copy = tmp_path / "famulus.service"
    copy.write_text((UNITS / "famulus.service").read_text().replace("/opt/famulus/current/bin/famulusd", "/bin/true"))
    return copy


@needs_analyze
def test_systemd_finds_nothing_to_complain_about(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_the_user_unit_is_valid_too(tmp_path: Path) -> None:
    copy = tmp_path / "famulus.service"
    text = (UNITS / "user" / "famulus.service").read_text()
    copy.write_text(text.replace("%h/.local/share/famulus/current/bin/famulusd", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", copy],
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_the_exposure_is_at_most_two(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", unit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout
