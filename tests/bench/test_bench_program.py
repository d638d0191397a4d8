"""The program around the suites: listing, arguments, endings."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from famulus.bench.__main__ import main
from famulus.bench.daemon import private_environment, toml
from famulus.bench.ending import until_signal
from famulus.bench.registry import SUITES, suite


def test_without_a_suite_all_suites_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"{name} " in out for name in ("idle", "turns", "slots"))


def test_a_name_registers_once() -> None:
    with pytest.raises(AssertionError, match="two suites are named idle"):
        suite("idle", help="again")(SUITES["idle"].setup)


def test_an_error_is_one_line_and_no_json_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["turns", "--recordings", str(tmp_path), "--json", str(out)]) == 1
    error = capsys.readouterr().err
    assert "manifest.json is missing" in error
    assert "Traceback" not in error
    assert not out.exists()


async def test_sigterm_cancels_the_work_once_and_its_clean_up_runs_to_the_end() -> None:
    cleaned = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # impatient: must not disturb the clean-up
            await asyncio.sleep(0.05)
            cleaned.set()

    running = asyncio.create_task(until_signal(work()))
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned.is_set()


def test_settings_become_toml_that_reads_back() -> None:
    import tomllib

    config = {"bus": {"address": "unix:path=/x"}, "wake": {"keywords": ["a", "b"], "threshold": 0.5, "on": True}}
    assert tomllib.loads(toml(config)) == config


def test_the_daemon_sees_nothing_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAMULUS_LLM_MODEL", "other")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/real")
    environment = private_environment(tmp_path)
    assert not [name for name in environment if name.startswith(("FAMULUS_", "DBUS_"))]
    assert all(
        environment[f"XDG_{name}_HOME"].startswith(str(tmp_path)) for name in ("CONFIG", "STATE", "CACHE", "DATA")
    )
