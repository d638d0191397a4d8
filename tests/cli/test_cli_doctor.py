"""``famulus doctor`` as a person and as a program see it, on the machine that runs the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from famulus.daemon.cli.doctor import count_text, finding_text
from famulus.daemon.cli.render import status_text
from famulus.daemon.cli.style import Style
from famulus.daemon.doctor.finding import Finding

NO_BUS = {"FAMULUS_BUS__ADDRESS": "none", "FAMULUS_AUDIO__SOURCE": "none"}


def doctor(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent"}
    command = [
        sys.executable,
        "-c",
        "import sys; from famulus.daemon.cli import main; sys.exit(main())",
        "doctor",
        *args,
    ]
    return subprocess.run(command, env={**own, **env}, capture_output=True, text=True, timeout=50, check=False)


def test_every_finding_is_a_line_with_its_mend_below_and_the_last_line_counts() -> None:
    done = doctor(**NO_BUS)
    *lines, last = done.stdout.splitlines()
    assert done.stderr == ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert re.match(r"(ok      |warning |fault   ) \S|\s+mend: \S", line), line
        if not line.startswith(" "):
            assert after.lstrip().startswith("mend: ") == (not line.startswith("ok"))
    assert re.fullmatch(r"\d+ faults?, \d+ warnings?, \d+ ok", last)
    assert done.returncode == (1 if any(line.startswith("fault") for line in lines) else 0)


def test_without_faults_the_exit_code_is_0_also_with_warnings(tmp_path: Path) -> None:
    """No model is wanted but the recogniser's, which this folder does not have: that one is a fault."""
    missing = doctor("--json", **NO_BUS, FAMULUS_LLM__MODEL="", FAMULUS_STORAGE__MODELS=str(tmp_path))
    told = json.loads(missing.stdout)
    assert missing.returncode == 1
    faults = [finding for finding in told["findings"] if finding["level"] == "fault"]
    assert [finding["name"] for finding in faults] == ["model asr"]
    assert faults[0]["mend"].endswith("famulus models pull moonshine-tiny-en")
    assert told["count"] == dict(Counter(finding["level"] for finding in told["findings"]))


@pytest.mark.models
def test_with_its_models_nothing_here_is_a_fault() -> None:
    done = doctor("--json", "--verify", **NO_BUS, HOME=os.environ.get("HOME", "/root"))
    told = json.loads(done.stdout)
    assert (done.returncode, told["count"]["fault"]) == (0, 0)
    assert {"name": "model llm", "level": "ok", "message": "smollm2-135m is whole.", "mend": ""} in told["findings"]


def test_settings_that_cannot_be_used_are_findings_like_others(tmp_path: Path) -> None:
    file = tmp_path / "famulus.toml"
    file.write_text("[wake]\ntreshold = 0.7\n")
    done = doctor("--config", str(file), **NO_BUS)
    assert done.returncode == 1
    assert (
        f"fault    settings      {file}: wake.treshold: there is no such key; did you mean threshold?." in done.stdout
    )
    assert f"mend: sudoedit {file}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_finding_cannot_steer_the_terminal_and_stays_on_its_line() -> None:
    shown = finding_text(Finding("microphone", "fault", "USB\x1b[2J\nmic", "arecord -l"), Style())
    assert shown == "fault    microphone    USB?[2J mic\n" + " " * 23 + "mend: arecord -l"
    assert count_text(Counter(fault=1, ok=2)) == "1 fault, 0 warnings, 2 ok"


def test_status_shows_the_board_and_how_long_the_last_turns_took() -> None:
    run = {
        "run": "r1",
        "status": "done",
        "decided_by": "sentences",
        "ms": 6.0,
        "stages_ms": {"listen": 900, "intent": 6.0},
    }
    status = {
        "state": "idle",
        "health": {"board": "throttled"},
        "temperature_c": 81.5,
        "throttled": ["throttled", "under_voltage_seen"],
        "memory_available_mb": 1234,
        "slots": [{"name": "llm", "state": "ready", "reason": "", "memory_mb": 180.0, "expires_in_s": 250, "queue": 0}],
        "last_runs": [run],
    }
    assert status_text(status).splitlines()[1:] == [
        "  board  throttled  throttled · under voltage seen · 81.5 °C · 1,234 MB available",
        "  llm    ready  180 MB · unloads in 4 min 10 s",
        "  run r1 done sentences 6 ms (listen 900, intent 6)",
    ]
