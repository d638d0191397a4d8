"""Sound: what the doctor says of microphones, groups, sound servers and sessions."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boards import Board, short
from famulus.bench.pulse import PrivatePulse, missing
from famulus.daemon.doctor import sound
from famulus.daemon.doctor.service import Service

CARDS = " 0 [Device         ]: USB-Audio - USB PnP Sound Device"


def running(microphone: str, message: str = "", wake_word: str = "ok") -> Service:
    said = {"source": "microphone USB: 48000 Hz", "message": message, "level_dbfs": -52.5}
    return Service(status={"health": {"microphone": microphone, "wake_word": wake_word}, "microphone": said})


@pytest.mark.parametrize(
    ("service", "level", "words"),
    [
        (running("ok"), "ok", "famulus hears through microphone USB: 48000 Hz at -52.5 dBFS."),
        (running("deaf", "Only digital silence."), "fault", "Only digital silence."),
        (running("mic_lost", "It went away."), "fault", "It went away."),
        (running("mic_lost"), "fault", "famulus does not hear through"),
        (running("starting"), "warning", "just opening"),
        (running("ok", "There is no wake word x.", "failed"), "fault", "There is no wake word x."),
    ],
)
def test_a_microphone_that_the_service_holds_is_asked_of_the_service(
    board: Board, service: Service, level: str, words: str
) -> None:
    found = sound.microphone(board.situation(service))
    assert found.level == level
    assert words in found.message
    assert bool(found.mend) == (level != "ok")


@pytest.mark.parametrize(
    ("message", "mend"),
    [
        (
            "The microphone may not be opened; add the daemon's user to the group audio.",
            "sudo usermod -aG audio famulus",
        ),
        ("The microphone USB (hw:1,0) is in use by arecord (12); end it.", "fuser -v /dev/snd/pcm*c"),
        ("There is no microphone; plug one in or start the sound server.", "plug a microphone in"),
        ("There is no microphone named 'x'; set audio.device to a part of one of: y.", "arecord -L"),
    ],
)
def test_each_reason_for_a_lost_microphone_has_its_mend(pi4: Board, message: str, mend: str) -> None:
    assert sound.microphone(pi4.situation(running("mic_lost", message))).mend.startswith(mend)


def test_without_a_microphone_in_the_settings_nothing_is_opened(board: Board, tmp_path: Path) -> None:
    assert sound.microphone(board.situation(audio={"source": "none"})).level == "ok"
    assert sound.audio_group(board.situation(audio={"source": "none"})).level == "ok"
    assert sound.audio_server(board.situation(audio={"source": "none"})).level == "ok"
    wanted = {"source": "file", "file": str(tmp_path / "sound")}
    assert short(sound.microphone(board.situation(audio=wanted))) == ("fault", f"mkfifo {tmp_path / 'sound'}")
    (tmp_path / "sound").touch()
    assert sound.microphone(board.situation(audio=wanted)).level == "ok"


@pytest.fixture
def pulse(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivatePulse]:
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:  # short enough for a socket's path
        made = PrivatePulse(Path(directory))
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        made.start()
        yield made
        made.stop()


def test_a_free_microphone_is_opened_and_heard(board: Board, pulse: PrivatePulse, tmp_path: Path) -> None:
    silent = sound.microphone(board.situation(audio={"device": "devmic"}))
    assert silent.level == "warning"
    assert "digital silence" in silent.message
    noise = tmp_path / "noise.raw"
    noise.write_bytes(os.urandom(16_000 * 2 * 10))
    command = ["paplay", f"--server={pulse.server}", "--device=mic", "--raw", "--rate=16000", "--channels=1", noise]
    with subprocess.Popen(command) as player:
        heard = sound.microphone(board.situation(audio={"device": "devmic"}))
        player.terminate()
    assert heard.level == "ok"
    assert heard.message.startswith("The microphone devmic: 16000 Hz hears, at -")
    named = sound.microphone(board.situation(audio={"device": "Blue Yeti"}))
    assert named.level == "fault"
    assert "set audio.device to a part of one of: " in named.message
    assert named.mend.startswith("arecord -L")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import os; os.abort()", "The sound library crashed"),
        ("raise SystemExit(3)", "ended with 3"),
        ("", "ended without a word"),
    ],
)
def test_a_sound_library_that_crashes_takes_its_own_process_only(
    board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\n{textwrap.dedent(script)}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    found = sound.microphone(board.situation())
    assert found.level == "fault"
    assert words in found.message


def test_a_sound_system_that_hangs_is_told(board: Board, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 30\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sound, "_HEAR_S", 0.3)
    found = sound.microphone(board.situation())
    assert short(found) == ("fault", "systemctl --user restart pipewire pipewire-pulse")


def test_the_user_of_the_unit_is_in_the_group_by_unit_or_by_group_file(pi4: Board) -> None:
    assert sound.audio_group(pi4.situation()).message == "famulus is in the group audio."
    pi4.write("etc/systemd/system/famulus.service", "[Service]\nUser=famulus")
    assert sound.audio_group(pi4.situation()).level == "ok"
    pi4.group("audio:x:29:")
    found = sound.audio_group(pi4.situation())
    assert short(found) == ("fault", "sudo usermod -aG audio famulus, then sudo systemctl restart famulus")
    pi4.write("etc/passwd", "famulus:x:990:29::/var/lib/famulus:/usr/sbin/nologin")
    assert sound.audio_group(pi4.situation()).level == "ok"


@pytest.mark.parametrize(
    ("facts", "level"),
    [
        ({"gids": frozenset({1000, 29})}, "ok"),
        ({}, "warning"),
        ({"user": "eva"}, "fault"),
        ({"user": "root", "uid": 0}, "ok"),
    ],
    ids=["member", "member since this login", "stranger", "root"],
)
def test_a_person_who_runs_famulus_is_in_the_group_now(board: Board, facts: dict[str, Any], level: str) -> None:
    board.group("audio:x:29:pi")
    board.facts |= facts
    found = sound.audio_group(board.situation())
    assert found.level == level
    assert bool(found.mend) == (level != "ok")


def test_who_may_open_the_devices_anyway_needs_no_group(pc: Board) -> None:
    pc.facts["user"] = "eva"
    assert "sound server" in sound.audio_group(pc.situation()).message
    (pc.root / "run/user/1000/pipewire-0").unlink()
    assert sound.audio_group(pc.situation()).level == "fault"
    pc.write("dev/snd/pcmC0D0c", "")
    assert sound.audio_group(pc.situation()).level == "ok"


def test_a_system_service_needs_a_sound_card(pi4: Board) -> None:
    assert sound.audio_server(pi4.situation()).level == "warning"
    pi4.write("proc/asound/cards", CARDS)
    assert "through ALSA" in sound.audio_server(pi4.situation()).message


def test_a_session_needs_a_sound_server_or_a_card(pc: Board) -> None:
    assert sound.audio_server(pc.situation()).message == "PipeWire answers for this session."
    (pc.root / "run/user/1000/pipewire-0").unlink()
    pc.write("proc/asound/cards", "--- no soundcards ---")
    assert sound.audio_server(pc.situation()).mend.startswith("systemctl --user start pipewire")
    pc.write("proc/asound/cards", CARDS)
    assert sound.audio_server(pc.situation()).level == "ok"


def test_a_service_of_a_session_must_linger(pc: Board) -> None:
    assert short(sound.user_session(pc.situation())) == ("warning", "loginctl enable-linger pi")
    pc.write("var/lib/systemd/linger/pi", "")
    assert sound.user_session(pc.situation()).level == "ok"


def test_a_system_service_needs_no_session(pi4: Board) -> None:
    assert sound.user_session(pi4.situation()).level == "ok"
