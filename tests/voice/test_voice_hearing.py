"""The real wake word and the real speech detector over recordings, many times faster than real time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from famulus.daemon.voice.file_source import FileSource
from famulus.engines.micro import MicroSpotter
from famulus.engines.silero import SileroDetector
from voice_fakes import AUDIO, MANIFEST, Room

PACE = 16.0
SPOKEN = [name for name, what in MANIFEST.items() if what["wake"] and what["text"]]


@pytest.fixture
async def real_room(tmp_path: Path) -> AsyncIterator[Room]:
    """A room with real ears; recordings are written into its FIFO."""
    os.mkfifo(tmp_path / "microphone")
    room = Room()
    room.source = FileSource(tmp_path / "microphone", pace=PACE)
    room.make_spotter = lambda: MicroSpotter(("hey_jarvis",))
    room.vad = await asyncio.to_thread(SileroDetector)
    room.capture_options["refractory_s"] = 1.0
    await room.start()
    async with asyncio.timeout(5):
        while room.capture.health().state != "ok":  # noqa: ASYNC110 - set on another thread
            await asyncio.sleep(0.01)
    yield room
    await room.loop.stop()


def recording(name: str) -> np.ndarray:
    samples, rate = soundfile.read(AUDIO / f"{name}.flac", dtype="int16")
    assert rate == 16_000
    return np.asarray(samples)


async def play(room: Room, name: str) -> np.ndarray:
    """Let the room hear a recording; returns its samples."""
    samples = await asyncio.to_thread(recording, name)
    fifo: Path = room.source._path
    await asyncio.to_thread(fifo.write_bytes, samples.tobytes())
    return samples


def position(segment: bytes, samples: np.ndarray) -> tuple[float, float]:
    """Start and end in seconds of a segment, without its zeros, in the recording."""
    whole = samples.tobytes()
    body = segment[:-9600]
    middle = body[len(body) // 2 - 3200 : len(body) // 2 + 3200]
    start = whole.index(middle) - (len(body) // 2 - 3200)
    return start / 32_000, (start + len(body)) / 32_000


@pytest.mark.parametrize("name", SPOKEN)
async def test_each_recording_wakes_and_its_sentence_is_cut_out_whole(real_room: Room, name: str) -> None:
    samples = await play(real_room, name)
    await real_room.events.finished(timeout_s=20)
    assert len(real_room.utterances) == 1
    (segment,) = real_room.segments
    start, end = position(segment, samples)
    clean = await asyncio.to_thread(recording, name.removesuffix("_10db"))
    last_sound = np.flatnonzero(np.abs(clean.astype(float)) > 600)[-1] / 16_000
    assert last_sound - 0.15 < end < last_sound + 0.7
    assert 0.6 < end - start < 3


async def test_the_wake_word_and_nothing_more_ends_quietly(real_room: Room) -> None:
    await play(real_room, "wake_then_silence")
    event = await real_room.events.finished(timeout_s=20)
    assert event.data["status"] == "cancelled"
    assert event.data["reply"] == ""
    assert not real_room.segments


async def test_chatter_without_the_wake_word_does_nothing(real_room: Room) -> None:
    blocks = real_room.capture.health().blocks
    samples = await play(real_room, "no_wake_chatter")
    async with asyncio.timeout(20):
        while real_room.capture.health().blocks < blocks + len(samples) / 1280 + 10:  # noqa: ASYNC110 - other thread
            await asyncio.sleep(0.05)
    assert real_room.events.events == []


async def test_it_wakes_again_and_again(real_room: Room) -> None:
    for turn in range(1, 11):
        await play(real_room, "one_breath_light_on")
        await real_room.events.finished(turn, timeout_s=20)
    assert len(real_room.utterances) == 10
    assert len(real_room.events.of("wake")) == 10


async def test_a_recording_file_is_heard_as_through_a_microphone(room: Room) -> None:
    room.source = FileSource(AUDIO / "wake_time.flac", pace=PACE)
    room.make_spotter = lambda: MicroSpotter(("hey_jarvis",))
    room.vad = await asyncio.to_thread(SileroDetector)
    await room.start()
    event = await room.events.finished(timeout_s=20)
    assert event.data["status"] == "done"
