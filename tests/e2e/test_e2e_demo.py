"""The demonstration as a person starts it, on one recording."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from famulus.bench import procfs

pytestmark = [pytest.mark.e2e, pytest.mark.models]
AUDIO = Path(__file__).parents[1] / "data" / "audio"


def folder(directory: Path, *, method: str) -> Path:
    """``wake_time`` alone, with ``method`` as the call that is expected."""
    manifest = json.loads((AUDIO / "manifest.json").read_text())
    (directory / "wake_time.flac").symlink_to(AUDIO / "wake_time.flac")
    (directory / "manifest.json").write_text(json.dumps({"wake_time": manifest["wake_time"]}))
    (directory / "expected.json").write_text(json.dumps({"wake_time": [{"method": method, "args": {}}]}))
    return directory


async def demo(recordings: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "famulus.bench.demo", "--recordings", str(recordings)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def test_it_plays_recordings_takes_sentences_and_ends_with_success(tmp_path: Path) -> None:
    process = await demo(folder(tmp_path, method="clock.time"))
    async with asyncio.timeout(50):
        out, _ = await process.communicate(b"switch on the light in the office\n")
    text = out.decode()
    assert process.returncode == 0, text
    assert "'What time is it?'" in text
    assert 'light.on {"room": "office"}' in text
    assert "\x1b" not in text
    assert text.splitlines()[-1] == "SUCCESS: 1 of 1 recordings gave the right outcome."


async def test_a_wrong_outcome_ends_with_failure_and_the_daemons_last_lines(tmp_path: Path) -> None:
    process = await demo(folder(tmp_path, method="light.on"))
    async with asyncio.timeout(50):
        out, _ = await process.communicate(b"")
    text = out.decode()
    assert process.returncode == 1, text
    assert "expected light.on {}" in text
    assert "famulus.daemon" in text
    assert text.splitlines()[-1] == "FAILURE: 1 of 1 recordings went wrong: wake_time."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_and_everything_it_started(tmp_path: Path, number: signal.Signals) -> None:
    process = await demo(folder(tmp_path, method="clock.time"))
    assert process.stdout is not None
    async with asyncio.timeout(50):
        said = b""
        while b"1/1" not in said:
            line = await process.stdout.readline()
            assert line, said.decode()  # else it ended before the recording began
            said += line
        started = await asyncio.to_thread(procfs.descendants, process.pid)
        process.send_signal(number)
        out, _ = await process.communicate()
    assert process.returncode == 130
    assert out.decode().splitlines()[-1] == "FAILURE: Stopped before the end."
    assert "Traceback" not in out.decode()
    assert len(started) >= 3
    assert [pid for pid in started if await asyncio.to_thread(os.path.exists, f"/proc/{pid}")] == []
