"""The program around the suites: listing, arguments, endings."""

import argparse
import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from famulus.bench.__main__ import main
from famulus.bench.daemon import private_environment, toml
from famulus.bench.ending import until_signal
from famulus.bench.registry import SUITES, Run, Suite, suite
from famulus.bench.report import Report, fingerprint, measured


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


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A suite that measures what its arguments say, and a folder of earlier results."""

    def setup(parser: argparse.ArgumentParser) -> Run:
        parser.add_argument("--middle", type=float, default=100.0)
        machine = fingerprint()

        async def run(args: argparse.Namespace) -> Report:
            samples = [args.middle * (0.995 + index * 0.001) for index in range(10)]
            return Report("made-up", machine, {}, {}, (), measurements=(measured("x", "wait", "ms", samples),))

        return run

    monkeypatch.setitem(SUITES, "made-up", Suite("made-up", "what its arguments say", setup))
    monkeypatch.setattr("famulus.bench.__main__.RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_the_latest_result_is_compared_with_and_a_regression_is_flagged(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["made-up", "--json", str(made_up / "made-up.json"), "--note", "with a fan"]) == 0
    out_text = capsys.readouterr().out
    assert "against the run" not in out_text
    assert "with a fan" in out_text
    out = tmp_path / "new"
    slower = ["made-up", "--middle", "130", "--html", f"{out}.html", "--md", f"{out}.md", "--json", f"{out}.json"]
    assert main(slower) == 0
    assert "REGRESSION: x, wait: slower 1.30×" in capsys.readouterr().out
    assert "Regression: x, wait: slower 1.30×" in Path(f"{out}.html").read_text()
    assert "REGRESSION: x, wait: slower 1.30×" in Path(f"{out}.md").read_text()
    (verdict,) = json.loads(Path(f"{out}.json").read_text())["verdicts"]
    assert verdict["verdict"] == "slower"
    assert main([*slower, "--fail-on-regression"]) == 3
    assert main([*slower, "--fail-on-regression", "--no-compare"]) == 0
    assert main(["made-up", "--middle", "130", "--compare", f"{out}.json", "--fail-on-regression"]) == 0
    assert "no difference seen" in capsys.readouterr().out


def test_a_file_that_cannot_be_compared_with_is_refused_before_the_work(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["made-up", "--compare", str(tmp_path / "none.json")]) == 1
    assert "name a file that --json wrote" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_one_line(
    made_up: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["made-up", "--json", str(tmp_path / "file" / "out.json")]) == 1
    assert capsys.readouterr().err.startswith("The results cannot be written: ")
