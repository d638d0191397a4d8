"""The capture thread: it never dies, says how the ear is, and lets go when asked."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from famulus.core.errors import Busy, ModelUnavailable, NotFound
from famulus.daemon.voice.backoff import Backoff
from famulus.daemon.voice.capture import Capture
from famulus.daemon.voice.source import SILENT_BLOCK, SourceLost
from famulus.engines.protocols import Detection
from voice_fakes import HUSH, SPEECH, WAKE, ScriptedSource, ScriptedSpotter


class Ear:
    def __init__(self) -> None:
        self.wakes: list[Detection] = []
        self.audio: list[bytes] = []
        self.lost: list[str] = []

    def on_wake(self, detection: Detection) -> None:
        self.wakes.append(detection)

    def on_audio(self, pcm: bytes) -> None:
        self.audio.append(pcm)

    def on_lost(self, message: str) -> None:
        self.lost.append(message)


async def until(condition: Callable[[], object], timeout_s: float = 5) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what changes is on another thread
            await asyncio.sleep(0.005)


class Bench:
    def __init__(self) -> None:
        self.source = ScriptedSource()
        self.spotter = ScriptedSpotter()
        self.ear = Ear()
        self.made: list[Capture] = []

    def start(self, **options: Any) -> Capture:
        capture = Capture(
            options.pop("source", self.source), options.pop("make_spotter", lambda: self.spotter), **options
        )
        self.made.append(capture)
        capture.start(self.ear)
        capture.arm()
        return capture


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    for capture in made.made:
        await capture.stop()


async def test_health_is_starting_then_ok_then_off(bench: Bench) -> None:
    bench.source.frozen.set()
    capture = bench.start()
    assert capture.health().state == "starting"
    bench.source.frozen.clear()
    bench.source.close()
    await until(lambda: capture.health().state == "ok")
    health = capture.health()
    assert health.source == "a script"
    assert health.frame_age_s is not None
    assert health.frame_age_s < 1
    assert health.level_dbfs == pytest.approx(-90.3, abs=0.1)
    await capture.stop()
    assert capture.health().state == "off"


async def test_without_a_source_the_ear_is_off_and_stops(bench: Bench) -> None:
    capture = bench.start(source=None)
    assert capture.health().state == "off"
    await capture.stop()


async def test_the_wake_word_passes_on_the_audio_after_it_and_nothing_before(bench: Bench) -> None:
    bench.spotter.lag_samples = 2
    bench.start()
    bench.source.say(SPEECH, SPEECH, WAKE, SPEECH)
    await until(lambda: len(bench.ear.audio) > 2)
    assert bench.ear.wakes == [Detection("hey_jarvis", 0.97, 2)]
    assert bench.ear.audio[:3] == [WAKE[-4:], SPEECH, HUSH]


async def test_push_to_talk_begins_a_moment_before_the_button(bench: Bench) -> None:
    capture = bench.start(make_spotter=None)
    await until(lambda: capture.health().blocks > 10)
    bench.source.say(SPEECH)
    capture.listen()
    await until(lambda: SPEECH in bench.ear.audio)
    assert bench.ear.audio.index(SPEECH) >= 1


async def test_a_muted_ear_hears_no_wake_word_and_sends_no_audio(bench: Bench) -> None:
    capture = bench.start()
    capture.mute()
    before = capture.health().blocks
    bench.source.say(WAKE, SPEECH)
    await until(lambda: capture.health().blocks > before + 20)
    assert not bench.ear.wakes
    assert not bench.ear.audio


async def test_arming_again_forgets_what_the_detector_heard_before(bench: Bench) -> None:
    capture = bench.start()
    await until(lambda: bench.spotter.resets == 1)
    capture.listen()
    capture.arm()
    await until(lambda: bench.spotter.resets == 2)


async def test_no_second_wake_within_the_refractory(bench: Bench) -> None:
    capture = bench.start(refractory_s=16)  # 200 blocks, so that a loop which is held up does not miss them
    bench.source.say(WAKE)
    await until(lambda: bench.ear.wakes)
    capture.arm()
    bench.source.say(WAKE)
    before = capture.health().blocks
    await until(lambda: capture.health().blocks > before + 15)
    assert len(bench.ear.wakes) == 1
    await until(lambda: capture.health().blocks > before + 200)
    bench.source.say(WAKE)
    await until(lambda: len(bench.ear.wakes) == 2)


async def test_audio_of_an_earlier_mode_is_not_delivered_late(bench: Bench) -> None:
    capture = bench.start()
    capture.listen()
    await until(lambda: bench.ear.audio)
    capture.mute()
    bench.ear.audio.clear()
    await asyncio.sleep(0.05)
    assert not bench.ear.audio


async def test_a_lost_microphone_is_opened_again_and_told_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    capture = bench.start()
    await until(lambda: capture.health().state == "ok")
    bench.source.open_errors = [NotFound("There is no microphone."), Busy("It is in use by arecord.")]
    bench.source.say(SourceLost("The microphone went away."))
    await until(lambda: capture.health().message == "It is in use by arecord.")
    assert capture.health().state == "mic_lost"
    await until(lambda: capture.health().state == "ok")
    assert capture.health().losses == 1
    assert [r.message for r in caplog.records if r.levelno == logging.ERROR] == ["The microphone went away."]
    assert [r.message for r in caplog.records if r.levelno == logging.INFO] == ["Hearing through a script."] * 2


async def test_a_device_that_is_not_there_at_boot_is_waited_for(bench: Bench) -> None:
    bench.source.open_errors = [NotFound("There is no microphone.")] * 2
    capture = bench.start()
    await until(lambda: capture.health().state == "mic_lost")
    before = capture.progress
    await until(lambda: capture.health().state == "ok")
    assert capture.progress > before


async def test_a_loss_while_listening_reaches_the_loop(bench: Bench) -> None:
    capture = bench.start()
    capture.listen()
    bench.source.say(SPEECH, SourceLost("The microphone went away."))
    await until(lambda: bench.ear.lost)
    assert bench.ear.lost == ["The microphone went away."]


async def test_any_exception_of_the_source_is_survived_and_counted(bench: Bench) -> None:
    capture = bench.start()
    bench.source.say(ValueError("boom"))
    await until(lambda: capture.health().faults == 1)
    await until(lambda: capture.health().state == "ok")


async def test_a_broken_detector_is_made_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    broken, whole = ScriptedSpotter(), ScriptedSpotter()
    broken.errors = [RuntimeError("boom")]
    spotters = [broken, whole]
    capture = bench.start(make_spotter=lambda: spotters.pop(0))
    await until(lambda: capture.health().wake_error)
    assert capture.health().state == "ok"
    await until(lambda: not capture.health().wake_error)
    assert capture.health().faults == 1
    bench.source.say(WAKE)
    await until(lambda: bench.ear.wakes)
    assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) == 1


async def test_a_detector_that_cannot_load_leaves_push_to_talk_working(bench: Bench) -> None:
    def refuse() -> ScriptedSpotter:
        raise ModelUnavailable("The wake word model is damaged; restore it.")

    capture = bench.start(make_spotter=refuse)
    await until(lambda: capture.health().wake_error == "The wake word model is damaged; restore it.")
    capture.listen()
    await until(lambda: bench.ear.audio)


async def test_digital_silence_for_long_is_deaf(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.source.idle = SILENT_BLOCK
    capture = bench.start(deaf_after_s=0.1)
    await until(lambda: capture.health().state == "deaf")
    assert "silence" in capture.health().message
    bench.source.idle = HUSH
    await until(lambda: capture.health().state == "ok")
    assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) == 1


async def test_a_silent_file_is_not_deaf(bench: Bench) -> None:
    bench.source.idle = SILENT_BLOCK
    bench.source.has_noise_floor = False
    capture = bench.start(deaf_after_s=0.05)
    await asyncio.sleep(0.2)
    assert capture.health().state == "ok"


async def test_a_source_that_hangs_is_noticed_and_left_within_a_second(bench: Bench) -> None:
    class Hung(ScriptedSource):
        def close(self) -> None:
            """As a driver that ignores everything."""

    bench.source = hung = Hung()
    capture = bench.start(starvation_s=0.1)
    await until(lambda: capture.health().state == "ok")
    release = hung._closed
    hung.frozen.set()
    await until(lambda: capture.health().state == "mic_lost")
    progress = capture.progress
    await asyncio.sleep(0.1)
    assert capture.progress == progress
    began = time.monotonic()
    await capture.stop()
    assert time.monotonic() - began < 1
    release.set()


async def test_stop_ends_the_thread_in_back_off_and_while_reading(bench: Bench) -> None:
    bench.source.open_errors = [NotFound("There is no microphone.")] * 50
    capture = bench.start()
    await until(lambda: capture.health().losses)
    await capture.stop()
    bench.source.open_errors = []
    capture = bench.start()
    await until(lambda: capture.health().state == "ok")
    await capture.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "capture"]


def test_delays_double_up_to_the_limit_and_start_over_when_calm() -> None:
    now = 1000.0
    backoff = Backoff(0.2, 10, calm_s=5, clock=lambda: now)
    delays = []
    for _ in range(8):
        delays.append(backoff.next())
        now += delays[-1]
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    now += 6
    assert backoff.next() == 0.2
