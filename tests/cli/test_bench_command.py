"""``famulus bench`` hands over to the harness, and no other command pays for it."""

import subprocess
import sys

import pytest
from famulus.daemon.cli import main


def test_bench_lists_the_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: famulus bench ")
    assert all(f"    {name} " in out for name in ("bus", "cancel", "idle", "llm", "slots", "turns", "wake"))


def test_options_reach_the_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "llm", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: famulus bench llm ")
    assert "--html OUT" in out and "--power" in out


def test_wrong_usage_ends_as_with_any_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "invalid choice: 'nothing'" in capsys.readouterr().err


def test_building_the_parser_loads_nothing_of_the_harness() -> None:
    code = (
        "import sys; from famulus.daemon.cli import build_parser; build_parser(); "
        "sys.exit(any(name.startswith('famulus.bench') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
