"""Sound: the microphone, who may open it, and the sound server in between."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from ..board import read_text
from ..voice.alsa import forbidden
from .finding import Finding, fault, ok, warning
from .machine import Machine, is_there
from .situation import Situation

_HEAR_S = 15.0  # opening may take 5 s, and a sleeping sound server 4 s more until its first block
_PLUG = "plug a microphone in; arecord -l shows what is there"
_LIST = "arecord -L, then set audio.device to a part of a name in famulus.toml"


def microphone(situation: Situation) -> Finding:
    """Ask the service that holds it, else open it for a second."""
    audio = situation.settings.audio
    if audio.source == "none":
        return ok("microphone", "The settings want no microphone (audio.source is none).")
    held = situation.status.get("microphone")
    if held and situation.status.get("health", {}).get("microphone") != "off":
        return _as_the_service_says(situation)
    if audio.source == "file":
        if is_there(Path(audio.file)):
            return ok("microphone", f"Sound comes from the file {audio.file}.")
        return fault("microphone", f"There is no file {audio.file}, which audio.file names.", f"mkfifo {audio.file}")
    return _open(situation)


def _as_the_service_says(situation: Situation) -> Finding:
    health, said = situation.status.get("health", {}), situation.status["microphone"]
    source, message = said.get("source") or "the microphone", said.get("message") or ""
    match health.get("microphone"):
        case "ok" if health.get("wake_word") == "failed":
            return fault("microphone", f"The wake word does not work: {message}", "famulus doctor --verify")
        case "ok":
            level = said.get("level_dbfs")
            heard = "" if level is None else f" at {level:g} dBFS"
            return ok("microphone", f"famulus hears through {source}{heard}.")
        case "deaf":
            return fault("microphone", message, _unmute(situation.machine))
        case "starting":
            return warning("microphone", f"famulus is just opening {source}.", "famulus doctor")
        case _:
            message = message or f"famulus does not hear through {source}."
            return fault("microphone", message, _mend(situation.machine, message))


def _open(situation: Situation) -> Finding:
    command = [sys.executable, "-P", "-m", "famulus.daemon.doctor.hear", situation.settings.audio.device]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_HEAR_S,
            check=True,
        )
        heard = json.loads(done.stdout or '{"code": "failed", "message": "The sound library ended without a word."}')
    except subprocess.TimeoutExpired:
        mend = "systemctl --user restart pipewire pipewire-pulse"
        return fault("microphone", f"The sound system did not answer within {_HEAR_S:g} s.", mend)
    except subprocess.CalledProcessError as error:
        why = "crashed" if error.returncode < 0 else f"ended with {error.returncode}"
        return fault("microphone", f"The sound library {why} while the microphone was opened.", "arecord -d 1 -v")
    if "source" in heard and heard["dbfs"] is not None:
        return ok("microphone", f"The {heard['source']} hears, at {heard['dbfs']:g} dBFS.")
    if "source" in heard:
        return warning("microphone", f"The {heard['source']} gives only digital silence.", _unmute(situation.machine))
    return fault("microphone", heard["message"], _mend(situation.machine, heard["message"]))


def _mend(machine: Machine, message: str) -> str:
    """By the sentence, because the service's health has no code."""
    if "group audio" in message:
        return f"sudo usermod -aG audio {machine.service_user}, then {machine.systemctl('restart')}"
    if "is in use by" in message:
        return "fuser -v /dev/snd/pcm*c, then end what holds it"
    if message.startswith("There is no microphone;"):
        return _PLUG
    return _LIST


def _unmute(machine: Machine) -> str:
    if _sound_server(machine):
        return "pactl set-source-mute @DEFAULT_SOURCE@ 0"
    return "alsamixer -V capture"


def audio_group(situation: Situation) -> Finding:
    """The service's user may open ``/dev/snd``."""
    name = "audio group"
    machine, user = situation.machine, situation.machine.service_user
    if situation.settings.audio.source != "microphone":
        return ok(name, "Not needed: the settings want no microphone.")
    if user == "root" or (user == machine.user and machine.uid == 0):
        return ok(name, "Not needed by root.")
    granted = re.search(r"^SupplementaryGroups=.*\baudio\b", machine.system_unit, re.MULTILINE)
    gid, members = _group(machine.etc, "audio")
    if granted or user in members:
        if user == machine.user and not granted and gid not in machine.gids:
            return warning(name, f"{user} joined the group audio after this login began.", "log out and in again")
        return ok(name, f"{user} is in the group audio.")
    if user == machine.user:
        if _sound_server(machine):
            return ok(name, "Not needed: a sound server of this session gives the sound.")
        nodes = machine.dev / "snd"
        if any(nodes.glob("pcmC*D*c")) and not forbidden(devices=nodes):
            return ok(name, "Not needed: this session may open the sound devices.")
    after = "log in again" if user == machine.user else machine.systemctl("restart")
    return fault(name, f"{user} is not in the group audio.", f"sudo usermod -aG audio {user}, then {after}")


def audio_server(situation: Situation) -> Finding:
    """PipeWire or PulseAudio where a session has one; ALSA alone is enough for a system service."""
    name, machine = "audio server", situation.machine
    if situation.settings.audio.source != "microphone":
        return ok(name, "Not needed: the settings want no microphone.")
    cards = [line for line in read_text(machine.proc / "asound/cards").splitlines() if re.match(r"\s*\d+ \[", line)]
    if machine.service_user != machine.user or (machine.system_unit and not machine.has_user_unit):
        if cards:
            return ok(name, "Not needed: the system service reads the sound card through ALSA.")
        return warning(name, "The kernel shows no sound card.", _PLUG)
    if server := _sound_server(machine):
        return ok(name, f"{server} answers for this session.")
    if cards:
        return ok(name, "None in this session; the sound card is read through ALSA.")
    start = "systemctl --user start pipewire pipewire-pulse, or plug a microphone in"
    return warning(name, "There is neither a sound server in this session nor a sound card.", start)


def user_session(situation: Situation) -> Finding:
    """A service of a session ends with the last logout, unless the session lingers."""
    name, machine = "user session", situation.machine
    if not machine.has_user_unit:
        return ok(name, "Not needed: famulus is no service of a session.")
    if is_there(machine.var / "lib/systemd/linger" / machine.user):
        return ok(name, f"The session of {machine.user} starts at boot and lingers.")
    message = f"famulus ends when {machine.user} logs out, and starts only after a login."
    return warning(name, message, f"loginctl enable-linger {machine.user}")


def _sound_server(machine: Machine) -> str:
    """The name of this session's sound server, ``""`` without one."""
    if server := machine.environ.get("PULSE_SERVER", ""):
        return f"The sound server {server}"
    for name, socket in (("PipeWire", "pipewire-0"), ("PulseAudio", "pulse/native")):
        if is_there(machine.runtime_dir / socket):
            return name
    return ""


def _group(etc: Path, group: str) -> tuple[int, set[str]]:
    """The group's id (-1 for none) and who is in it, also as their first one."""
    gid, members = -1, set[str]()
    for line in read_text(etc / "group").splitlines():
        fields = line.split(":")
        if len(fields) == 4 and fields[0] == group and fields[2].isdecimal():
            gid = int(fields[2])
            members.update(filter(None, fields[3].split(",")))
    for line in read_text(etc / "passwd").splitlines():
        fields = line.split(":")
        if len(fields) > 3 and fields[3] == str(gid):
            members.add(fields[0])
    return gid, members
