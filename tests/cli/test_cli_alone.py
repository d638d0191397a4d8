"""The command without a service: help, settings, rendering, colours."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from famulus.client import Event, Reply
from famulus.daemon.cli import build_parser, main
from famulus.daemon.cli.codes import EXIT_CODES
from famulus.daemon.cli.render import capabilities_text, event_line, run_details, span, status_text
from famulus.daemon.cli.style import Style, clean
from famulus.daemon.settings_files import default_toml

README = Path(__file__).parents[2] / "README.md"


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def test_help_lists_every_command_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    on_the_bus = {"ask", "listen", "status", "watch", "capabilities"}
    assert set(subcommands()) == {*on_the_bus, "doctor", "config", "models", "bench"}
    for name in subcommands():
        assert f"\n    {name}" in text
    assert EXIT_CODES in text


def test_the_readme_names_every_command() -> None:
    text = README.read_text(encoding="utf-8")
    assert [name for name in subcommands() if f"famulus {name}" not in text] == []


@pytest.mark.parametrize("name", ["ask", "listen", "status", "watch", "capabilities"])
def test_every_command_on_the_bus_takes_json_and_bus(name: str) -> None:
    text = subcommands()[name].format_help()
    assert "--json" in text
    assert "--bus ADDRESS" in text


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["dance"],
        ["ask"],
        ["config"],
        ["status", "--loud"],
        ["ask", "--timeout", "x", "y"],
        ["ask", "--timeout", "nan", "y"],
    ],
)
def test_wrong_usage_is_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "usage: famulus" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("famulus 0.")


def test_config_default_is_the_default_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "default"]) == 0
    assert capsys.readouterr().out.strip() == default_toml().strip()
    assert main(["config", "default", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bus"]["name"] == "org.famulus.Agent"


def test_config_check_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "famulus.toml"
    file.write_text("[wake]\nthreshold = 0.7\n")
    assert main(["config", "check", "--file", str(file)]) == 0
    assert main(["config", "show", "--file", str(file)]) == 0
    assert "threshold = 0.7" in capsys.readouterr().out
    assert main(["config", "show", "--json", "--file", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["wake"]["threshold"] == 0.7


def test_config_check_tells_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "famulus.toml"
    file.write_text("[wake]\ntreshold = 0.7\n[llm]\nthreads = -1\n")
    assert main(["config", "check", "--file", str(file)]) == 1
    told = capsys.readouterr().err
    assert "did you mean threshold?" in told
    assert "llm.threads" in told
    assert main(["config", "check", "--json", "--file", str(file)]) == 1
    assert [problem["key"] for problem in json.loads(capsys.readouterr().out)["problems"]] == [
        "wake.treshold",
        "llm.threads",
    ]


def test_config_names_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--file", str(tmp_path / "none.toml")]) == 1
    assert "no such file" in capsys.readouterr().err


def test_models_is_part_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]


def test_help_loads_no_heavy_module() -> None:
    source = (
        "import sys\nfrom famulus.daemon.cli import main\nmain(['--help'])\n"
        "heavy = {'asyncio', 'dbus_fast', 'pydantic', 'numpy', 'hassil'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr.strip() == "[]"


def test_a_reader_that_has_enough_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    source = "import sys; from famulus.daemon.cli import main; sys.exit(main(['config', 'default']))"
    done = subprocess.run([sys.executable, "-c", source], stdout=write, stderr=subprocess.PIPE, check=False, timeout=30)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


class InterruptedInput:
    """Standard input while a person presses Ctrl-C."""

    @property
    def buffer(self) -> InterruptedInput:
        return self

    def read(self, size: int) -> bytes:
        raise KeyboardInterrupt


def test_interrupting_a_read_of_standard_input_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", InterruptedInput())
    assert main(["ask", "-"]) == 130
    assert capsys.readouterr() == ("", "")


CALL = {"id": "r1.1", "method": "lamp.on", "args": {"room": "厨房"}, "outcome": {"error": None}}


def test_the_details_of_a_run() -> None:
    broken = {**CALL, "outcome": {"error": {"code": "busy", "message": "…"}}}
    reply = Reply("Done.", "failed", "r1", "model", "busy", [CALL, broken], {"intent": 0.25, "select": 12.0})
    assert run_details(reply).splitlines() == [
        '  lamp.on(room="厨房") ok',
        '  lamp.on(room="厨房") failed: busy',
        "  decided by model · intent 0.2 ms · select 12.0 ms",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Event("wake", data={"keyword": "hey", "score": 0.5}), "wake       hey 0.50"),
        (Event("stage", "r1", {"stage": "select", "n": 2.0}), "stage      r1 select n=2.0"),
        (Event("transcript", "r1", {"text": "tur", "final": False}), "transcript r1 tur …"),
        (Event("token", "r1", {"text": "Hi"}), "token      r1 Hi"),
        (Event("timer", data={"id": "t1", "label": "tea"}), "timer      t1 tea"),
        (
            Event(
                "finished", "r1", reply=Reply("Done.", "done", calls=[CALL], stages_ms={"intent": 1.0, "select": 2.0})
            ),
            "finished   r1 done 3.0 ms lamp.on Done.",
        ),
    ],
)
def test_an_event_is_one_line(event: Event, line: str) -> None:
    assert event_line(event, "12:00:00") == f"12:00:00 {line}"


def test_a_status_of_an_older_service_is_shown_as_far_as_it_goes() -> None:
    assert status_text({}) == "famulus · unknown"
    assert status_text({"state": "idle", "health": {"microphone": "lost"}}).splitlines()[1] == "  microphone  lost"


def test_what_the_microphone_and_a_failed_model_say_is_shown() -> None:
    status = {
        "state": "idle",
        "health": {"microphone": "lost", "asr": "failed"},
        "microphone": {"source": "USB", "message": "unplugged", "level_dbfs": None},
        "slots": [{"name": "asr", "state": "failed", "reason": "no memory", "memory_mb": 0, "expires_in_s": None}],
        "last_runs": [{"run": "r1", "status": "done", "decided_by": "cache", "ms": 3.5}],
    }
    assert status_text(status).splitlines()[1:] == [
        "  microphone  lost  USB · unplugged",
        "  asr         failed  no memory",
        "  run r1 done cache 3.5 ms",
    ]


def test_capabilities_show_parameters_and_an_example() -> None:
    schema = {"type": "object", "properties": {"room": {}, "level": {}}, "required": ["room"]}
    command = {"name": "lamp.on", "description": "Light", "parameters": schema, "examples": [{"text": "it is dark"}]}
    listed = capabilities_text([{"name": "lamp", "description": "", "commands": [command]}])
    assert listed.splitlines() == ["lamp", "  lamp.on(room, [level])  Light", "    “it is dark”"]
    assert capabilities_text([]) == "No capability is registered."


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (3600, "1 h"), (11100, "3 h 5 min"), (90061, "1 d 1 h")]
)
def test_a_length_of_time(seconds: float, text: str) -> None:
    assert span(seconds) == text


class Terminal:
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Style(Terminal())("x", "red", "bold") == "\x1b[31;1mx\x1b[0m"  # type: ignore[arg-type]
    assert Style(None)("x", "red") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Style(Terminal())("x", "red") == "x"  # type: ignore[arg-type]


def test_foreign_words_cannot_steer_the_terminal() -> None:
    assert clean("a\x1b[2Jb\u202ec\nd厨") == "a?[2Jb?c\nd厨"
