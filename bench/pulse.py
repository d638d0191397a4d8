"""A microphone without hardware: a private PulseAudio whose null sink is what the process under test hears.

Recording through it is bit-exact, so a played file arrives as if a perfect microphone had heard it. Nothing of
the user's own sound setup is touched: own runtime directory, own home, own socket, own ALSA configuration.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

_PULSE_VARIABLES = ("PULSE_SERVER", "PULSE_SINK", "PULSE_SOURCE", "DBUS_SESSION_BUS_ADDRESS")
_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 5.0


def missing() -> str:
    """Why this machine cannot run a :class:`PrivatePulse`; ``""`` when it can."""
    absent = [program for program in ("pulseaudio", "paplay", "parec") if shutil.which(program) is None]
    if absent:
        return f"needs {', '.join(absent)} (apt install pulseaudio pulseaudio-utils)"
    if not any(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so")):
        return "needs the ALSA plugin for PulseAudio (apt install libasound2-plugins)"
    return ""


class PrivatePulse:
    """One sound server in a directory; may be stopped or killed and started again, as a real one restarts.

    ``env`` holds the variables for the process under test. In it the capture device is called ``devmic`` and
    the playback device ``devspk``; both are also ``default``. ``rate`` is the rate of the microphone in Hz.
    """

    def __init__(self, directory: Path, *, rate: int = 16_000) -> None:
        self._directory = directory
        self._rate = rate
        self._daemon: subprocess.Popen[bytes] | None = None
        self._monitor: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> str:
        """The address for ``paplay --server=…``."""
        return f"unix:{self._directory / 'pulse.sock'}"

    @property
    def env(self) -> dict[str, str]:
        """Variables that make a process see these devices and no others."""
        return {
            "ALSA_CONFIG_PATH": str(self._directory / "asound.conf"),
            "XDG_RUNTIME_DIR": str(self._directory),
            "PULSE_CONFIG_PATH": str(self._directory),
            "PULSE_SERVER": self.server,
        }

    @property
    def pid(self) -> int:
        """The process id of the running server, for tests that freeze or kill it."""
        assert self._daemon is not None
        return self._daemon.pid

    def start(self) -> None:
        """Start the server and wait until it answers; raises ``TimeoutError``."""
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "pulse.sock").unlink(missing_ok=True)
        self._write_alsa_configuration()
        sink = "module-null-sink sink_name={name} rate={rate} channels=1 format=s16le channel_map=mono"
        self._daemon = subprocess.Popen(
            [
                *("pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "--disable-shm=true"),
                *("--use-pid-file=no", "--log-target=stderr"),
                *("-L", f"module-native-protocol-unix socket={self._directory / 'pulse.sock'} auth-anonymous=1"),
                *("-L", sink.format(name="mic", rate=self._rate)),
                *("-L", sink.format(name="spk", rate=48_000)),
            ],
            env=self._own_environment(),
            stdout=subprocess.DEVNULL,
            stderr=(self._directory / "pulse.log").open("wb"),
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise TimeoutError(f"PulseAudio did not start; see {self._directory / 'pulse.log'}")
            time.sleep(0.05)
        # Without a reader the monitor sleeps, and what is played before it wakes (up to 2 s) is lost.
        self._monitor = subprocess.Popen(
            ["parec", f"--server={self.server}", "--device=mic.monitor", "--latency-msec=20", "--raw"],
            env=self._own_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def play(self, recording: Path, *, timeout_s: float = 60.0) -> None:
        """Let the microphone hear a WAV or FLAC file; returns when it has been played."""
        self._paplay(recording).wait(timeout_s)

    def play_in_background(self, recording: Path) -> subprocess.Popen[bytes]:
        """Like :meth:`play`, but returns at once; the caller waits for or ends the process."""
        return self._paplay(recording)

    def freeze(self) -> None:
        """Stop the server's clock without closing anything, as a hung driver does."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the server without a goodbye."""
        if self._daemon is not None:
            self._daemon.kill()
        self.stop()

    def stop(self) -> None:
        """End the server and its monitor; harmless when none runs."""
        for process in (self._monitor, self._daemon):
            if process is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_TIMEOUT_S)
        self._monitor = self._daemon = None

    def _paplay(self, recording: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["paplay", f"--server={self.server}", "--device=mic", str(recording)], env=self._own_environment()
        )

    def _answers(self) -> bool:
        probe = ["pactl", f"--server={self.server}", "info"]
        try:
            done = subprocess.run(probe, env=self._own_environment(), capture_output=True, timeout=2, check=False)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _own_environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in _PULSE_VARIABLES}
        return kept | {"HOME": str(self._directory), "XDG_RUNTIME_DIR": str(self._directory)}

    def _write_alsa_configuration(self) -> None:
        def pcm(name: str, device: str) -> str:
            return (
                f'pcm.{name} {{ type pulse server "{self.server}" device "{device}" '
                f'hint {{ show on description "{name}" }} }}\n'
            )

        (self._directory / "asound.conf").write_text(
            'pcm.!default { type asym capture.pcm "devmic" playback.pcm "devspk" }\n'
            + pcm("devmic", "mic.monitor")
            + pcm("devspk", "spk")
            + f'ctl.!default {{ type pulse server "{self.server}" }}\n'
        )
