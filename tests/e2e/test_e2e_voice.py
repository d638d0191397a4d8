"""From sound waves to an app in another process, every part real."""

import asyncio
import os
import signal
from typing import Any

import pytest
from famulus.bench.recordings import Recording
from famulus.bench.rig import Rig
from famulus.bench.turn import hear

pytestmark = [pytest.mark.e2e, pytest.mark.models, pytest.mark.asyncio(loop_scope="module")]

# What the app in the other process must have done; the clock and the timer are the daemon's own.
CHANGES: dict[str, list[dict[str, Any]]] = {
    "wake_light_on": [{"light": "on", "room": "kitchen"}],
    "one_breath_light_on": [{"light": "on", "room": "kitchen"}],
    "wake_light_on_10db": [{"light": "on", "room": "kitchen"}],
    "wake_two_acts": [{"light": "off", "room": "all"}, {"curtain": "open"}],
    "wake_time": [],
    "wake_timer": [],
    "wake_volume": [{"volume": 30}],
}


async def until_state(rig: Rig, state: str, timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while (await rig.client.properties())["State"] != state:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", list(CHANGES))
async def test_spoken_words_become_the_expected_calls(
    hearing_rig: Rig, recordings: dict[str, Recording], name: str
) -> None:
    before = len(hearing_rig.lamp.changes)
    turn = await hear(recordings[name], hearing_rig.play, hearing_rig.moments)
    assert turn.problem() is None, f"{turn.problem()}; heard {turn.transcript!r}"
    assert turn.replies[0].text
    assert await hearing_rig.lamp.changes_since(before, len(CHANGES[name])) == CHANGES[name]
    await until_state(hearing_rig, "idle", 2)


@pytest.mark.parametrize("name", ["no_wake_chatter", "wake_then_silence"])
async def test_without_a_sentence_nothing_happens_and_it_listens_again(
    hearing_rig: Rig, recordings: dict[str, Recording], name: str
) -> None:
    before = len(hearing_rig.lamp.changes)
    turn = await hear(recordings[name], hearing_rig.play, hearing_rig.moments)
    assert turn.woke == (recordings[name].wake is not None)
    assert turn.problem() is None
    assert turn.transcript is None
    assert hearing_rig.lamp.changes[before:] == []
    await until_state(hearing_rig, "idle", 2)


async def test_a_turn_tells_the_milliseconds_of_each_stage(hearing_rig: Rig, recordings: dict[str, Recording]) -> None:
    turn = await hear(recordings["wake_time"], hearing_rig.play, hearing_rig.moments)
    for stage in ("listen", "transcribe", "intent", "execute", "summarise"):
        assert turn.stages_ms[stage] is not None, stage
    assert turn.outcome_ms is not None


async def test_the_speech_worker_killed_in_mid_turn_is_told_and_the_next_turn_works(
    hearing_rig: Rig, recordings: dict[str, Recording]
) -> None:
    await hear(recordings["wake_time"], hearing_rig.play, hearing_rig.moments)  # so that the worker is there
    worker = await hearing_rig.daemon.worker("sherpa_onnx")
    since = len(hearing_rig.moments.all)
    turn = asyncio.create_task(hear(recordings["wake_light_on"], hearing_rig.play, hearing_rig.moments))
    assert await hearing_rig.moments.until(lambda: hearing_rig.moments.count("wake", since) > 0, 15)
    os.kill(worker, signal.SIGSTOP)  # so that it cannot be done before it is killed
    await until_state(hearing_rig, "transcribing", 15)
    os.kill(worker, signal.SIGKILL)
    (reply,) = (await turn).replies
    assert (reply.status, reply.error, reply.calls) == ("failed", "model_unavailable", [])
    assert reply.text.endswith(".")
    again = await hear(recordings["wake_light_on"], hearing_rig.play, hearing_rig.moments)
    assert again.problem() is None
