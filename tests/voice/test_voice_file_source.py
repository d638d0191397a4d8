"""Recordings and FIFOs as microphones."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from famulus.core.errors import Denied, Failed, NotFound
from famulus.daemon.voice.file_source import FileSource
from famulus.daemon.voice.source import BLOCK_BYTES, SILENT_BLOCK, SourceLost
from voice_fakes import HUSH, SPEECH

FAST = 200.0


def tone(rate: int, seconds: float, channels: int = 1) -> np.ndarray:
    wave = (np.sin(np.arange(int(rate * seconds)) * 2 * np.pi * 440 / rate) * 8000).astype("int16")
    return np.stack([wave] + [np.zeros_like(wave)] * (channels - 1), axis=1)


def read(source: FileSource, blocks: int) -> bytes:
    return b"".join(source.read() for _ in range(blocks))


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "microphone"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(("rate", "channels", "suffix"), [(16_000, 1, "flac"), (44_100, 2, "wav"), (48_000, 1, "wav")])
def test_a_recording_of_any_rate_is_played_then_silence(tmp_path: Path, rate: int, channels: int, suffix: str) -> None:
    path = tmp_path / f"tone.{suffix}"
    soundfile.write(path, tone(rate, 1.0, channels), rate)
    source = FileSource(path, pace=FAST)
    source.open()
    samples = np.frombuffer(read(source, 13), "<i2").astype(float)
    spectrum = np.abs(np.fft.rfft(samples[2000:14000]))
    assert np.argmax(spectrum) * 16_000 / 12_000 == pytest.approx(440, abs=2)
    assert np.sqrt(np.mean(samples[2000:14000] ** 2)) == pytest.approx(8000 / np.sqrt(2), rel=0.02)
    read(source, 1)
    assert read(source, 5) == SILENT_BLOCK * 5
    source.close()


def test_a_recording_at_our_rate_is_bit_exact(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    samples = tone(16_000, 0.8)
    soundfile.write(path, samples, 16_000)
    source = FileSource(path, pace=FAST)
    source.open()
    assert read(source, 10) == samples.tobytes()


def test_time_passes_at_the_pace_of_a_clock(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    soundfile.write(path, tone(16_000, 0.1), 16_000)
    source = FileSource(path)
    source.open()
    began = time.monotonic()
    read(source, 5)
    assert 0.39 < time.monotonic() - began < 0.8


def test_a_fifo_is_silent_without_a_writer_and_writers_may_come_and_go(fifo: Path) -> None:
    source = FileSource(fifo, pace=20)
    source.open()
    assert read(source, 3) == SILENT_BLOCK * 3
    for block in (SPEECH, HUSH):
        with fifo.open("wb") as writer:
            writer.write(block * 2)
        assert block * 2 in read(source, 6)
    assert source.read() == SILENT_BLOCK


def test_a_writer_that_is_much_too_fast_waits_and_loses_nothing(fifo: Path) -> None:
    source = FileSource(fifo, pace=20)
    source.open()
    sent = bytes(range(256)) * 2000
    writer = threading.Thread(target=fifo.write_bytes, args=(sent,))
    writer.start()
    heard = read(source, len(sent) // BLOCK_BYTES + 20)
    writer.join(5)
    assert sent in heard


def test_a_writer_at_our_own_pace_has_no_gaps(fifo: Path) -> None:
    """Small pieces in real time, as another program's microphone gives them."""
    source = FileSource(fifo)
    source.open()
    sent = b"\x07\x01" * (16_000 * 6 // 10)

    def write() -> None:
        with fifo.open("wb", buffering=0) as writer:
            began = time.monotonic()
            for number, start in enumerate(range(0, len(sent), 640)):
                time.sleep(max(0.0, began + 0.02 * number - time.monotonic()))
                writer.write(sent[start : start + 640])

    writer = threading.Thread(target=write)
    writer.start()
    heard = read(source, 12)
    writer.join(5)
    assert sent in heard


def test_half_a_sample_of_a_writer_that_left_does_not_shift_the_next(fifo: Path) -> None:
    source = FileSource(fifo, pace=20)
    source.open()
    with fifo.open("wb") as writer:
        writer.write(SPEECH[:101])
    read(source, 3)
    with fifo.open("wb") as writer:
        writer.write(SPEECH)
    assert SPEECH in read(source, 3)


def test_errors_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match=r"does not exist; correct audio\.file"):
        FileSource(tmp_path / "absent.wav").open()
    text = tmp_path / "notes.wav"
    text.write_text("not audio")
    with pytest.raises(Failed, match="use WAV or FLAC"):
        FileSource(text).open()

    def forbid(self: Path, **_: object) -> os.stat_result:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", forbid)
    with pytest.raises(Denied, match="may not be read"):
        FileSource(text).open()


def test_close_from_another_thread_ends_a_read_at_once(fifo: Path) -> None:
    source = FileSource(fifo, pace=0.01)
    source.open()
    threading.Timer(0.1, source.close).start()
    began = time.monotonic()
    with pytest.raises(SourceLost):
        source.read()
    assert time.monotonic() - began < 1
    with pytest.raises(SourceLost):
        source.read()
    source.open()
    source.close()
