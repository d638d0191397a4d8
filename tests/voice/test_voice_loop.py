"""The voice loop: every state has a deadline, and every way out of one leads back to the wake word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from famulus.core.errors import Busy, Failed, ModelUnavailable, NotFound
from famulus.daemon.agent.run import Event, RunResult, Utterance
from famulus.daemon.voice.endpoint import Endpointer
from famulus.daemon.voice.source import SourceLost
from famulus.engines.protocols import Transcript
from voice_fakes import HUSH, SPEECH, WAKE, Room


async def forever(*_: object) -> None:
    await asyncio.Event().wait()


async def deaf_to_cancel(*_: object) -> None:
    """A collaborator that ignores being cancelled, for a while."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            continue


def broken(*_: object) -> None:
    raise ValueError("boom")


async def a_good_turn_follows(room: Room) -> None:
    """The wake word is live and a whole turn works."""
    finished = len(room.events.of("finished"))
    room.ask()
    event = await room.events.finished(finished + 1)
    assert event.data["status"] == "done"


async def test_a_turn_tells_all_its_steps_in_order(room: Room) -> None:
    await room.start()
    room.ask()
    await room.events.finished()
    assert [(event.kind, event.data.get("state")) for event in room.events.events] == [
        ("wake", None),
        ("state", "listening"),
        ("state", "transcribing"),
        ("transcript", None),
        ("state", "thinking"),
        ("finished", None),
        ("state", "idle"),
    ]
    wake, transcript = room.events.of("wake")[0], room.events.of("transcript")[0]
    assert wake.data == {"keyword": "hey_jarvis", "score": 0.97}
    assert transcript.data["text"] == "what time is it"
    assert transcript.data["final"] is True
    assert {event.run for event in room.events.events[:-1]} == {"run-1"}
    ((utterance, run),) = room.utterances
    assert (replace(utterance, voice_ms={}), run) == (Utterance("what time is it", "voice"), "run-1")
    assert utterance.voice_ms["listen"] == pytest.approx(640, abs=40)
    assert utterance.voice_ms["transcribe"] >= 0
    assert room.prefetched == 1
    await a_good_turn_follows(room)


async def test_nothing_said_ends_quietly(room: Room) -> None:
    await room.start()
    room.source.say(WAKE)
    event = await room.events.finished()
    assert event.data["status"] == "cancelled"
    assert event.data["reply"] == event.data["error"] == ""
    assert not room.segments
    await a_good_turn_follows(room)


async def test_noise_without_words_ends_quietly(room: Room) -> None:
    room.texts = ["  "]
    await room.start()
    room.ask()
    event = await room.events.finished()
    assert event.data["status"] == "cancelled"
    assert event.data["reply"] == ""
    assert not room.utterances
    await a_good_turn_follows(room)


async def test_noise_for_ever_is_cut_and_transcribed(room: Room) -> None:
    await room.start()
    room.source.idle = SPEECH
    room.source.say(WAKE)
    await room.events.until(lambda: room.segments)
    room.source.idle = HUSH
    await room.events.finished()
    assert len(room.segments[0]) / 32_000 == pytest.approx(10, abs=0.5)
    await a_good_turn_follows(room)


async def test_an_endpointer_that_never_decides_is_cut_by_the_loops_own_deadline(room: Room) -> None:
    class Undecided(Endpointer):
        def feed(self, pcm: bytes) -> str:  # type: ignore[override]
            return "waiting"

    room.options["endpointer_factory"] = lambda: Undecided(room.vad)
    await room.start()
    room.loop._listen_s = 0.2
    room.source.say(WAKE)
    assert (await room.events.finished()).data["status"] == "cancelled"


async def test_a_microphone_lost_mid_speech_fails_the_turn_and_says_so(room: Room) -> None:
    await room.start()
    room.source.say(WAKE, SPEECH, SPEECH, SourceLost("The microphone went away."))
    event = await room.events.finished()
    assert (event.data["status"], event.data["error"]) == ("failed", "failed")
    assert event.data["reply"] == "The microphone stopped while I listened; please say it again."
    await a_good_turn_follows(room)


async def test_frames_that_stop_mid_speech_do_not_leave_it_listening(room: Room) -> None:
    room.options["starvation_s"] = 0.2
    await room.start()
    room.source.say(WAKE, SPEECH, SPEECH)
    await room.events.until(lambda: room.events.states == ["listening"])
    room.source.frozen.set()
    event = await room.events.finished()
    assert event.data["status"] == "failed"
    room.source.frozen.clear()
    room.source.close()
    await a_good_turn_follows(room)


@pytest.mark.parametrize("stuck", [forever, deaf_to_cancel])
async def test_a_transcript_that_never_comes_times_out(room: Room, stuck: Callable[..., object]) -> None:
    good, room.transcribe = room.transcribe, stuck  # type: ignore[assignment]
    room.options["transcribe_s"] = 0.1
    await room.start()
    room.ask()
    event = await room.events.finished(timeout_s=3)
    assert (event.data["status"], event.data["error"]) == ("timed_out", "timed_out")
    assert event.data["reply"]
    room.loop._transcribe = good
    await a_good_turn_follows(room)


@pytest.mark.parametrize("stuck", [forever, deaf_to_cancel])
async def test_a_run_that_never_ends_times_out(room: Room, stuck: Callable[..., object]) -> None:
    good, room.dispatch = room.dispatch, stuck  # type: ignore[assignment]
    room.options["think_s"] = 0.1
    await room.start()
    room.ask()
    event = await room.events.finished(timeout_s=3)
    assert (event.data["status"], event.data["error"]) == ("timed_out", "timed_out")
    room.loop._dispatch = good
    await a_good_turn_follows(room)


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (["what time is it"], "what time is it"),
        (["what dime is it", "what time is it"], "what time is it"),
        (["what dime is it", "what lime is it"], "what dime is it"),
        (["what dime is it", ""], "what dime is it"),
    ],
)
async def test_words_that_no_sentence_knows_are_heard_again_with_another_cut(
    room: Room, heard: list[str], words: str
) -> None:
    room.texts = list(heard)
    room.known = lambda text: text == "what time is it"
    await room.start()
    room.source.say(WAKE, *[HUSH] * 8, *[SPEECH] * 6)
    await room.events.finished()
    assert room.utterances[0][0].text == words
    assert [event.data["text"] for event in room.events.of("transcript")] == [words]
    assert len(room.segments) == len(set(room.segments)) == len(heard)


async def test_where_both_cuts_are_the_same_one_hearing_is_enough(room: Room) -> None:
    room.texts = ["what dime is it"]
    room.known = lambda text: False
    await room.start()
    room.source.say(WAKE, *[SPEECH] * 6)
    await room.events.finished()
    assert len(room.segments) == 1 and room.utterances[0][0].text == "what dime is it"


async def test_a_transcription_error_is_told_with_its_code_and_sentence(room: Room) -> None:
    async def refuse(pcm: bytes) -> Transcript:
        raise ModelUnavailable("The speech model is missing; run famulus models fetch.")

    good, room.transcribe = room.transcribe, refuse
    await room.start()
    room.ask()
    event = await room.events.finished()
    assert event.data["status"] == "failed"
    assert event.data["error"] == "model_unavailable"
    assert event.data["reply"] == "The speech model is missing; run famulus models fetch."
    assert event.data["voice_ms"]["listen"] > 0
    room.loop._transcribe = good
    await a_good_turn_follows(room)


async def test_a_refused_dispatch_is_told(room: Room) -> None:
    async def refuse(utterance: Utterance, run: str) -> RunResult:
        raise Busy("Too many runs wait; try again shortly.")

    good, room.dispatch = room.dispatch, refuse
    await room.start()
    room.ask()
    event = await room.events.finished()
    assert (event.data["status"], event.data["error"]) == ("failed", "busy")
    room.loop._dispatch = good
    await a_good_turn_follows(room)


@pytest.mark.parametrize("part", ["endpointer_factory", "transcribe", "dispatch"])
async def test_any_exception_of_a_part_fails_the_turn_and_only_that(room: Room, part: str) -> None:
    await room.start()
    good = getattr(room.loop, f"_{part}")
    setattr(room.loop, f"_{part}", broken)
    room.ask()
    event = await room.events.finished()
    assert (event.data["status"], event.data["error"]) == ("failed", "failed")
    assert "boom" not in event.data["reply"]
    setattr(room.loop, f"_{part}", good)
    await a_good_turn_follows(room)


async def test_a_speech_detector_that_breaks_fails_the_turn_and_only_that(room: Room) -> None:
    await room.start()
    room.vad.error = RuntimeError("boom")
    room.ask()
    assert (await room.events.finished()).data["status"] == "failed"
    room.vad.error = None
    await a_good_turn_follows(room)


async def test_a_failing_prefetch_or_listener_or_run_id_does_not_end_the_ear(room: Room) -> None:
    await room.start()
    room.loop._prefetch = broken
    await a_good_turn_follows(room)

    good_publish, room.loop._publish = room.loop._publish, broken
    room.ask()
    await room.events.until(lambda: len(room.events.of("finished")) == 2)
    room.loop._publish = good_publish
    while room.loop.state != "idle":  # noqa: ASYNC110 - nobody tells, by design of this test
        await asyncio.sleep(0.01)
    await a_good_turn_follows(room)

    good_id, room.loop._new_run_id = room.loop._new_run_id, broken  # type: ignore[assignment]
    blocks = room.capture.health().blocks
    room.source.say(WAKE)
    while room.capture.health().blocks < blocks + 20:  # noqa: ASYNC110 - counted on another thread
        await asyncio.sleep(0.01)
    room.loop._new_run_id = good_id
    await a_good_turn_follows(room)


async def test_push_to_talk_needs_no_wake_word_and_belongs_to_the_app_that_asked(room: Room) -> None:
    await room.start()
    run = room.loop.listen(owner=":1.7", session="kitchen", language="en")
    with pytest.raises(Busy):
        room.loop.listen()
    room.source.say(*[SPEECH] * 6)
    event = await room.events.finished()
    assert event.run == run
    assert not room.events.of("wake")
    assert {event.owner for event in room.events.of("transcript")} == {":1.7"}
    utterance = replace(room.utterances[0][0], voice_ms={})
    assert utterance == Utterance("what time is it", "voice", "en", "kitchen", ":1.7")
    await a_good_turn_follows(room)


async def test_push_to_talk_without_a_microphone_says_why(room: Room) -> None:
    room.source.open_errors = [NotFound("There is no microphone; plug one in.")] * 50
    await room.start()
    while room.capture.health().state != "mic_lost":  # noqa: ASYNC110 - set on another thread
        await asyncio.sleep(0.01)
    with pytest.raises(NotFound, match="plug one in"):
        room.loop.listen()
    await room.loop.stop()
    room.source = None
    await room.start()
    with pytest.raises(NotFound, match=r"audio\.source"):
        room.loop.listen()


@pytest.mark.parametrize("state", ["listening", "transcribing", "thinking"])
async def test_cancel_ends_a_turn_in_any_state(room: Room, state: str) -> None:
    good = room.transcribe, room.dispatch
    room.transcribe = forever if state == "transcribing" else room.transcribe  # type: ignore[assignment]
    room.dispatch = forever if state == "thinking" else room.dispatch  # type: ignore[assignment]
    await room.start()
    if state == "listening":
        run = room.loop.listen()
    else:
        room.ask()
        await room.events.until(lambda: room.loop.state == state)
        run = room.events.of("wake")[0].run
    assert not room.loop.cancel("another")
    assert room.loop.cancel(run)
    event = await room.events.finished()
    assert (event.data["status"], event.data["error"], event.data["reply"]) == ("cancelled", "cancelled", "")
    assert len(room.events.of("finished")) == 1
    room.loop._transcribe, room.loop._dispatch = good
    assert not room.loop.cancel()
    await a_good_turn_follows(room)


async def test_cancel_of_all_spares_the_turn_that_asked_for_it(room: Room) -> None:
    room.dispatch = forever  # type: ignore[assignment]
    await room.start()
    room.ask()
    await room.events.until(lambda: room.loop.state == "thinking")
    asking = room.loop.listen()
    assert room.loop.cancel(spare=asking)
    await room.events.until(lambda: room.events.of("finished"))
    assert room.events.of("finished")[0].run == "run-1"
    assert room.loop.state == "listening"


async def test_a_cancelled_run_that_says_how_it_ended_is_not_told_twice(room: Room) -> None:
    async def tells(utterance: Utterance, run: str) -> RunResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return room.publish_result(RunResult(run, "cancelled", "Stopped."))
        raise AssertionError

    room.dispatch = tells
    await room.start()
    room.ask()
    await room.events.until(lambda: room.loop.state == "thinking")
    room.loop.cancel()
    await room.events.finished()
    assert [event.data["reply"] for event in room.events.of("finished")] == ["Stopped."]


async def test_stop_can_be_said_while_a_run_is_thinking(room: Room) -> None:
    running: dict[str, asyncio.Event] = {}

    async def agent(utterance: Utterance, run: str) -> RunResult:
        if utterance.text == "stop":
            for event in running.values():
                event.set()
            return room.publish_result(RunResult(run, "done", "Stopped."))
        running[run] = asyncio.Event()
        await running[run].wait()
        return room.publish_result(RunResult(run, "cancelled", ""))

    room.dispatch = agent
    room.texts = ["tell me a long story", "stop"]
    await room.start()
    room.ask()
    await room.events.until(lambda: room.loop.state == "thinking")
    room.ask(blocks=4)
    await room.events.finished(2)
    assert room.events.states == [
        "listening",
        "transcribing",
        "thinking",
        "listening",
        "transcribing",
        "thinking",
        "idle",
    ]
    statuses = {event.run: event.data["status"] for event in room.events.of("finished")}
    assert statuses == {"run-1": "cancelled", "run-2": "done"}


async def test_nothing_said_while_a_run_is_thinking_shows_the_run_again(room: Room) -> None:
    release = asyncio.Event()

    async def agent(utterance: Utterance, run: str) -> RunResult:
        await release.wait()
        return room.publish_result(RunResult(run, "done", "It is noon."))

    room.dispatch = agent
    await room.start()
    room.ask()
    await room.events.until(lambda: room.loop.state == "thinking")
    room.source.say(WAKE)
    await room.events.until(lambda: room.events.of("finished"))
    await room.events.until(lambda: room.events.states[-1] == "thinking")
    release.set()
    await room.events.finished(2)


@pytest.mark.parametrize("state", ["idle", "listening", "transcribing", "thinking"])
@pytest.mark.parametrize("stuck", [forever, deaf_to_cancel])
async def test_stop_is_quick_in_every_state(room: Room, state: str, stuck: Callable[..., object]) -> None:
    room.transcribe = stuck if state == "transcribing" else room.transcribe  # type: ignore[assignment]
    room.dispatch = stuck if state == "thinking" else room.dispatch  # type: ignore[assignment]
    await room.start()
    if state == "listening":
        room.loop.listen()
    elif state != "idle":
        room.ask()
        await room.events.until(lambda: room.loop.state == state)
    began = time.monotonic()
    await room.loop.stop()
    assert time.monotonic() - began < 2.5
    assert room.loop.state == "idle"
    assert len(room.events.of("finished")) == (state != "idle")
    with pytest.raises(Busy):
        room.loop.listen()


async def test_no_words_in_the_logs_above_debug(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    room.texts = ["my secret sentence"]
    await room.start()
    room.ask()
    await room.events.finished()
    assert "secret" not in caplog.text


@pytest.mark.timeout(180)
async def test_a_thousand_turns_of_every_kind_and_it_still_listens(room: Room) -> None:
    """It wakes once and never again: not here."""
    outcomes: list[str] = []
    counted = 1000

    async def transcribe(pcm: bytes) -> Transcript:
        kind = kinds[len(outcomes) % len(kinds)]
        if kind == "asr_error":
            raise Failed("The worker died; it is started again.")
        if kind == "asr_bug":
            raise ValueError("boom")
        return Transcript("" if kind == "no_words" else "what time is it", len(pcm) / 32_000, 0.0)

    async def dispatch(utterance: Utterance, run: str) -> RunResult:
        kind = kinds[len(outcomes) % len(kinds)]
        if kind == "busy":
            raise Busy("Too many runs wait; try again shortly.")
        if kind == "cancel":
            room.loop.cancel(run)
            await asyncio.sleep(1)
        return room.publish_result(RunResult(run, "done", ""))

    kinds = ["good", "silence", "no_words", "asr_error", "good", "asr_bug", "busy", "cancel", "push", "vad_bug"]
    expected = ["done", "cancelled", "cancelled", "failed", "done", "failed", "failed", "cancelled", "done", "failed"]
    room.settings = room.settings.model_copy(update={"start_s": 0.5})
    room.transcribe, room.dispatch = transcribe, dispatch
    room.source.pace_s = 0.0001
    await room.start()
    for turn in range(counted):
        kind = kinds[turn % len(kinds)]
        room.vad.error = RuntimeError("boom") if kind == "vad_bug" else None
        if kind == "push":
            room.loop.listen()
            room.source.say(*[SPEECH] * 4)
        elif kind == "silence":
            room.source.say(WAKE)
        else:
            room.ask(blocks=4)
        event: Event = await room.events.finished(len(outcomes) + 1)
        outcomes.append(event.data["status"])
    assert outcomes == expected * (counted // len(expected))
    assert len(room.events.of("finished")) == counted
    assert not room.loop._abandoned
    assert room.capture.health().faults == 0
