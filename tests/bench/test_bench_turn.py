import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.recordings import Recording
from famulus.bench.turn import Moments, Turn, hear, show_calls, word_error_rate
from famulus.client.events import Event, Reply
from famulus.core.errors import Failed, TimedOut

LIGHT = ("light.on", {"room": "kitchen"})
WAKE = Event("wake", "", {"keyword": "hey_jarvis", "score": 0.9})


def recording(wake: str | None = "hey jarvis", calls: Any = (LIGHT,)) -> Recording:
    return Recording("x", Path("x.flac"), wake, "turn on the kitchen light", calls=calls)


def finished(*calls: tuple[str, dict[str, Any]], status: str = "done") -> Event:
    made = [{"id": "1", "method": method, "args": args, "outcome": {}} for method, args in calls]
    times = {"stages_ms": {"intent": 1.0}, "voice_ms": {"listen": 0.0, "transcribe": 20.0}}
    return Event("finished", "r", {}, Reply("Done.", status, "r", "sentences", calls=made, **times))


def transcript(text: str) -> Event:
    return Event("transcript", "r", {"text": text, "final": True})


async def heard(what: Recording, *events: Event, timeout_s: float = 5.0) -> Turn:
    """The turn that a daemon makes which tells ``events`` while the recording plays."""
    queue: asyncio.Queue[Event] = asyncio.Queue()

    async def told() -> AsyncIterator[Event]:
        while True:
            yield await queue.get()

    async def play(_: Path) -> None:
        for event in events:
            queue.put_nowait(event)

    moments = Moments()
    collecting = asyncio.create_task(moments.collect(told()))
    try:
        return await hear(what, play, moments, timeout_s=timeout_s)
    finally:
        collecting.cancel()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("famulus.bench.turn.SETTLE_S", 0.05)


async def test_a_good_turn_holds_wake_words_calls_and_times() -> None:
    turn = await heard(recording(), WAKE, transcript("Turn on the kitchen light."), finished(LIGHT))
    assert (turn.keyword, turn.score, turn.transcript) == ("hey_jarvis", 0.9, "Turn on the kitchen light.")
    assert turn.calls == (LIGHT,)
    assert turn.stages_ms["transcribe"] == 20.0
    assert turn.stages_ms["select"] is None
    assert turn.outcome_ms is not None and turn.outcome_ms >= 0
    assert turn.problem() is None


async def test_silence_after_a_recording_without_wake_word_is_right() -> None:
    turn = await heard(recording(None, ()))
    assert not turn.woke
    assert turn.outcome_ms is None
    assert turn.problem() is None


@pytest.mark.parametrize(
    ("what", "events", "problem"),
    [
        (recording(None, ()), [WAKE, finished(status="cancelled")], "something happened"),
        (recording(), [], "the wake word was not heard"),
        (recording(), [WAKE, finished()], 'expected light.on {"room": "kitchen"}'),
        (recording(calls=()), [WAKE, finished(LIGHT)], "expected nothing"),
        (recording(), [WAKE, finished(LIGHT, status="failed")], "the run ended as failed"),
        (recording(), [WAKE, WAKE, finished(LIGHT), finished(LIGHT)], "it became 2 runs"),
    ],
)
async def test_what_is_wrong_is_said(what: Recording, events: list[Event], problem: str) -> None:
    found = (await heard(what, *events)).problem()
    assert found is not None
    assert found.startswith(problem)


async def test_calls_are_not_judged_where_nobody_wrote_them_down() -> None:
    assert (await heard(recording(calls=None), WAKE, finished(LIGHT))).problem() is None


async def test_a_turn_that_never_ends_fails_at_its_deadline_with_what_was_seen() -> None:
    with pytest.raises(TimedOut, match=r"within 0\.2 s; heard of: wake, transcript"):
        await heard(recording(), WAKE, transcript("x"), timeout_s=0.2)


async def test_a_daemon_that_leaves_fails_the_turn_at_once() -> None:
    async def told() -> AsyncIterator[Event]:
        yield WAKE
        raise Failed("famulus has left the bus")

    async def play(_: Path) -> None:
        await asyncio.sleep(0)

    moments = Moments()
    await moments.collect(told())
    with pytest.raises(Failed, match="has left the bus"):
        await hear(recording(), play, moments)


@pytest.mark.parametrize(
    ("expected", "found", "rate"),
    [
        ("turn on the light", "Turn on the light.", 0.0),
        ("set the volume to thirty percent", "Set the volume to 30%.", 0.0),
        ("set a timer for ten minutes", "set a timer for 10 minutes", 0.0),
        ("turn on the light", "turn the light", 0.25),
        ("turn on the light", "", 1.0),
        ("one two", "one three two four", 1.0),
        ("", "you", None),
    ],
)
def test_word_error_rate_counts_words_not_spelling(expected: str, found: str, rate: float | None) -> None:
    assert word_error_rate(expected, found) == rate


def test_calls_are_shown_as_people_read_them() -> None:
    assert show_calls((LIGHT, ("curtain.open", {}))) == 'light.on {"room": "kitchen"} + curtain.open {}'
    assert show_calls(()) == "nothing"
