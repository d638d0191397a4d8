"""The private parts of the rig, for real: dbus-daemon, PulseAudio, a FIFO."""

import asyncio
import contextlib
import os
import select
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from dbus_fast.aio import MessageBus
from famulus.bench.fifo import PacedFifo
from famulus.bench.microphone import PulseMicrophone, to_the_end
from famulus.bench.private_bus import PrivateBus
from famulus.bench.pulse import missing
from famulus.core.errors import Failed, InvalidArguments, TimedOut

needs_pulse = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:
        yield Path(directory)


async def test_private_bus_serves_and_ends_with_its_block(short_path: Path) -> None:
    async with PrivateBus(short_path) as bus:
        connection = await MessageBus(bus_address=bus.address).connect()
        assert connection.unique_name == ":1.0"
        connection.disconnect()
    with pytest.raises(OSError, match=r"refused|No such file"):
        await MessageBus(bus_address=bus.address).connect()


async def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="too long for a socket"):
        await PrivateBus(tmp_path / ("x" * 100)).start()


def chirp(path: Path) -> bytes:
    samples = (np.sin(np.arange(8000) ** 1.5 / 200) * 20_000).astype("<i2")
    lead_in = np.zeros(1600, "<i2")  # the sound server may lose the first few milliseconds of a stream
    soundfile.write(path, np.concatenate([lead_in, samples]), 16_000)
    return samples.tobytes()


async def record(microphone: PulseMicrophone, heard: bytearray) -> None:
    """As the daemon would, until cancelled."""
    process = await asyncio.create_subprocess_exec(
        *("parec", "--device=mic.monitor", "--format=s16le", "--rate=16000", "--channels=1", "--latency-msec=20"),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **microphone.env},
    )
    assert process.stdout is not None
    try:
        while block := await process.stdout.read(4096):
            heard += block
    finally:
        process.kill()
        await process.wait()


async def more(heard: bytearray, size: int) -> None:
    target = len(heard) + size
    async with asyncio.timeout(10):
        while len(heard) < target:  # noqa: ASYNC110 - bytes arrive, nothing is set
            await asyncio.sleep(0.02)


@needs_pulse
async def test_a_played_recording_is_heard_bit_for_bit_and_a_bad_one_is_refused(short_path: Path) -> None:
    pcm = await asyncio.to_thread(chirp, short_path / "chirp.wav")
    microphone = PulseMicrophone(short_path)
    await microphone.start()
    heard = bytearray()
    recording = asyncio.create_task(record(microphone, heard))
    try:
        await more(heard, 640)
        await microphone.play(short_path / "chirp.wav")
        await more(heard, 3200)
        with pytest.raises(Failed, match="paplay ended with code"):
            await microphone.play(short_path / "none.wav")
    finally:
        recording.cancel()
        await microphone.stop()
    assert pcm in heard


async def test_work_in_a_thread_is_over_before_its_cancelled_caller_goes_on() -> None:
    begun = threading.Event()
    done = threading.Event()

    def work() -> None:
        begun.set()
        threading.Event().wait(0.1)
        done.set()

    task = asyncio.create_task(to_the_end(work))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.is_set()


def read_fifo(path: Path, size: int) -> bytes:
    """Never blocks for good: a thread that hangs in ``open`` would hold up the end of the test's loop."""
    descriptor, found = os.open(path, os.O_RDONLY | os.O_NONBLOCK), b""
    deadline = time.monotonic() + 20
    try:
        while len(found) < size and time.monotonic() < deadline:
            if select.select([descriptor], [], [], 0.1)[0]:
                with contextlib.suppress(BlockingIOError):
                    found += os.read(descriptor, size - len(found)) or _pause()
        return found
    finally:
        os.close(descriptor)


def _pause() -> bytes:
    """Nobody writes yet, which makes a FIFO readable and empty."""
    time.sleep(0.01)
    return b""


async def test_fifo_gives_silence_until_something_is_played(short_path: Path) -> None:
    async with PacedFifo(short_path / "mic") as microphone:
        assert await asyncio.to_thread(read_fifo, microphone.path, 6400) == bytes(6400)


async def test_fifo_gives_what_is_played_and_serves_the_next_reader(short_path: Path) -> None:
    async with PacedFifo(short_path / "mic") as microphone:
        assert await asyncio.to_thread(read_fifo, microphone.path, 640)
        reading = asyncio.create_task(asyncio.to_thread(read_fifo, microphone.path, 32_000))
        await microphone.play_pcm(b"\1\2" * 3000, timeout_s=5)
        assert b"\1\2" * 3000 in await reading


async def test_fifo_without_a_reader_ends_at_the_deadline(short_path: Path) -> None:
    async with PacedFifo(short_path / "mic") as microphone:
        with pytest.raises(TimedOut, match="Nobody took the recording"):
            await microphone.play_pcm(b"\1\2", timeout_s=0.1)
