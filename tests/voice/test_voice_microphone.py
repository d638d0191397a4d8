"""A real capture device: PortAudio, ALSA and a private PulseAudio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyaudio
import pytest
import soundfile
from famulus.bench.pulse import PrivatePulse, missing
from famulus.core.errors import Busy, Denied, Failed, FamulusError, NotFound
from famulus.daemon.voice import alsa
from famulus.daemon.voice.bounded import BoundedCaller
from famulus.daemon.voice.capture import Capture
from famulus.daemon.voice.microphone import Microphone
from famulus.daemon.voice.source import SourceLost
from famulus.engines.micro import MicroSpotter
from voice_fakes import AUDIO

needs_pulse = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture
def pulse(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivatePulse]:
    """A private sound server that this process sees."""
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:  # short enough for a socket's path
        made = PrivatePulse(Path(directory))
        for name, value in made.env.items():
            monkeypatch.setenv(name, value)
        made.start()
        yield made
        made.stop()


class Ear:
    def __init__(self) -> None:
        self.audio = bytearray()
        self.wakes = 0

    def on_wake(self, _: object) -> None:
        self.wakes += 1

    def on_audio(self, pcm: bytes) -> None:
        self.audio += pcm

    def on_lost(self, message: str) -> None: ...


async def until(condition: Callable[[], object], timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what changes is on another thread
            await asyncio.sleep(0.02)


@pytest.fixture
async def ear() -> AsyncIterator[tuple[Ear, Capture]]:
    """A capture thread on the microphone ``devmic``; the test starts it."""
    listener = Ear()
    capture = Capture(Microphone("devmic"), lambda: MicroSpotter(("hey_jarvis",)))
    yield listener, capture
    await capture.stop()


@needs_pulse
async def test_what_is_played_is_heard_bit_for_bit(
    pulse: PrivatePulse, ear: tuple[Ear, Capture], tmp_path: Path
) -> None:
    listener, capture = ear
    samples = (np.sin(np.arange(16_000) ** 1.5 / 200) * 20_000).astype("<i2")
    await asyncio.to_thread(
        soundfile.write, tmp_path / "chirp.wav", np.concatenate([np.zeros(1600, "<i2"), samples]), 16_000
    )
    capture.start(listener)
    await until(lambda: capture.health().state == "ok", 10)
    assert capture.health().source == "microphone devmic: 16000 Hz"
    capture.listen()
    await asyncio.to_thread(pulse.play, tmp_path / "chirp.wav")
    await until(lambda: samples.tobytes() in listener.audio, 5)


@needs_pulse
async def test_the_wake_word_is_heard_through_the_microphone(pulse: PrivatePulse, ear: tuple[Ear, Capture]) -> None:
    listener, capture = ear
    capture.start(listener)
    capture.arm()
    await until(lambda: capture.health().state == "ok", 10)
    await asyncio.to_thread(pulse.play, AUDIO / "wake_time.flac")
    await until(lambda: listener.wakes == 1, 5)


@needs_pulse
async def test_a_killed_sound_server_is_a_lost_microphone_until_a_new_one_runs(
    pulse: PrivatePulse, ear: tuple[Ear, Capture]
) -> None:
    listener, capture = ear
    capture.start(listener)
    await until(lambda: capture.health().state == "ok", 10)
    await asyncio.to_thread(pulse.kill)
    await until(lambda: capture.health().state == "mic_lost", 3)
    await asyncio.sleep(0.5)
    await asyncio.to_thread(pulse.start)
    await until(lambda: capture.health().state == "ok", 20)
    assert capture.health().losses == 1


@needs_pulse
async def test_a_frozen_device_is_noticed_does_not_hang_the_daemon_and_comes_back(
    pulse: PrivatePulse, ear: tuple[Ear, Capture]
) -> None:
    listener, capture = ear
    capture.start(listener)
    await until(lambda: capture.health().state == "ok", 10)
    pulse.freeze()
    await until(lambda: capture.health().state == "mic_lost", 2)
    began = time.monotonic()
    await capture.stop()
    assert time.monotonic() - began < 1.5
    capture.start(listener)
    await asyncio.sleep(0.5)
    pulse.thaw()
    await until(lambda: capture.health().state == "ok", 20)


@needs_pulse
def test_errors_name_what_exists(pulse: PrivatePulse) -> None:
    with pytest.raises(NotFound, match=r"no microphone named 'respeaker'.*devmic"):
        Microphone("respeaker").open()
    pulse.kill()
    with pytest.raises(FamulusError, match="start the sound server"):
        Microphone().open()


@needs_pulse
def test_a_name_is_part_of_the_device_in_any_case_and_empty_is_the_default(pulse: PrivatePulse) -> None:
    for name in ("DEVMIC", ""):
        microphone = Microphone(name)
        microphone.open()
        assert len(microphone.read()) == 2560
        microphone.close()


@needs_pulse
def test_close_from_another_thread_ends_a_read_at_once(pulse: PrivatePulse) -> None:
    microphone = Microphone("devmic")
    microphone.open()
    microphone.read()
    threading.Timer(0.2, microphone.close).start()
    began = time.monotonic()
    with pytest.raises(SourceLost):
        while True:
            microphone.read()
    assert time.monotonic() - began < 1


@needs_pulse
@pytest.mark.parametrize(("rate", "channels"), [(44_100, 1), (48_000, 2)])
def test_a_device_without_our_rate_is_opened_at_its_own_and_resampled(
    pulse: PrivatePulse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: int, channels: int
) -> None:
    """ "Invalid sample rate": the device has exactly one format, as many USB microphones do."""
    open_any = pyaudio.PyAudio.open

    def open_one(audio: pyaudio.PyAudio, **wanted: Any) -> Any:
        if wanted["rate"] != rate:
            raise OSError(-9997, "Invalid sample rate")
        if wanted["channels"] != channels:
            raise OSError(-9998, "Invalid number of channels")
        return open_any(audio, **wanted)

    monkeypatch.setattr(pyaudio.PyAudio, "open", open_one)
    tone = (np.sin(np.arange(32_000) * 2 * np.pi * 440 / 16_000) * 20_000).astype("<i2")
    soundfile.write(tmp_path / "tone.wav", tone, 16_000)
    microphone = Microphone("devmic")
    microphone.open()
    microphone.read()
    assert microphone.describe() == f"microphone devmic: {rate} Hz"
    player = pulse.play_in_background(tmp_path / "tone.wav")
    heard = np.frombuffer(b"".join(microphone.read() for _ in range(30)), "<i2").astype(float)
    player.wait(10)
    microphone.close()
    loud = heard[np.flatnonzero(np.abs(heard) > 5000)[0] :][1000:17_000]
    assert np.argmax(np.abs(np.fft.rfft(loud))) == pytest.approx(440, abs=2)
    assert np.abs(loud).max() == pytest.approx(20_000, rel=0.05)


@needs_pulse
@pytest.mark.parametrize(
    ("code", "error", "sentence"),
    [
        (-9985, Busy, "in use by another program"),
        (-9999, Failed, "cannot be opened"),
        (-9997, Failed, "no sample rate that can be used"),
    ],
)
def test_a_device_that_does_not_open_says_why(
    pulse: PrivatePulse, monkeypatch: pytest.MonkeyPatch, code: int, error: type[FamulusError], sentence: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, "PortAudio's words")

    monkeypatch.setattr(pyaudio.PyAudio, "open", refuse)
    with pytest.raises(error, match=sentence):
        Microphone("devmic").open()


@needs_pulse
def test_without_the_audio_group_it_says_so(pulse: PrivatePulse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alsa, "forbidden", lambda: True)
    pulse.kill()
    with pytest.raises(Denied, match="group audio"):
        Microphone().open()


def test_devices_that_may_not_be_opened_are_told_from_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not alsa.forbidden(devices=tmp_path)
    (tmp_path / "pcmC0D0c").touch()
    assert not alsa.forbidden(devices=tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert alsa.forbidden(devices=tmp_path)


@needs_pulse
def test_the_sound_libraries_write_nothing_to_stderr(pulse: PrivatePulse) -> None:
    program = (
        "from famulus.daemon.voice.microphone import Microphone\n"
        "microphone = Microphone('devmic'); microphone.open(); microphone.read(); microphone.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=dict(os.environ), capture_output=True, timeout=30, check=True
    )
    assert done.stderr == b""


def test_the_holder_of_a_busy_device_is_named(tmp_path: Path) -> None:
    sound = tmp_path / "asound"
    statuses = [sound / "card1" / "pcm0c" / f"sub{number}" / "status" for number in (0, 1)]
    for status in statuses:
        status.parent.mkdir(parents=True)
        status.write_text("state: RUNNING\nowner_pid   : 4242\ntrigger_time: 1.0\n")
    (sound / "cards").write_text(" 1 [Device         ]: USB-Audio - USB PnP Sound Device\n")
    (tmp_path / "4242").mkdir()
    (tmp_path / "4242" / "comm").write_text("arecord\n")
    for name in ("USB PnP Sound Device: Audio (hw:1,0)", "usb pnp", ""):
        assert alsa.holder(name, proc=tmp_path) == "arecord (4242)"
    for name in ("USB PnP Sound Device: Audio (hw:2,0)", "respeaker"):
        assert alsa.holder(name, proc=tmp_path) == ""
    statuses[1].write_text("closed\n")
    assert alsa.holder("usb pnp", proc=tmp_path) == ""


@needs_pulse
def test_a_busy_device_that_portaudio_does_not_list_is_busy_and_not_missing(
    pulse: PrivatePulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alsa, "holder", lambda device: "arecord (4242)" if device == "USB PnP" else "")
    with pytest.raises(Busy, match=r"USB PnP is in use by arecord \(4242\)"):
        Microphone("USB PnP").open()


def test_a_call_that_hangs_does_not_hang_the_caller_and_its_late_result_is_discarded() -> None:
    caller, release, discarded = BoundedCaller("test"), threading.Event(), threading.Event()

    def hang() -> str:
        release.wait(5)
        return "late"

    with pytest.raises(Failed, match="does not answer"):
        caller.call(hang, timeout_s=0.1, discard=lambda _: discarded.set())
    with pytest.raises(Failed, match="does not answer"):
        caller.call(lambda: "another", timeout_s=0.1, discard=lambda _: None)
    release.set()
    assert discarded.wait(5)
    assert caller.call(lambda: "another", timeout_s=1, discard=lambda _: None) == "another"
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    with pytest.raises(Failed):
        caller.call(lambda: time.sleep(1), timeout_s=5, discard=lambda _: None, stop=stop)
    assert time.monotonic() - began < 0.5
