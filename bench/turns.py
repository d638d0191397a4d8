"""Whole turns by voice: recordings played into the microphone, and what came of each."""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core.errors import TimedOut
from .power.cost import Figure
from .power.options import add_power_options, recording, with_energy
from .power.recorder import Recorder
from .recordings import Recording, load_recordings
from .registry import Run, suite
from .report import Cell, Report, Table, fingerprint, measured
from .rig import Rig, add_audio_argument
from .turn import STAGES, Moment, Turn, hear, show_calls, word_error_rate

_LISTENING = "famulus listens"
_LISTEN_S = 5.0
_ENERGY = (
    Figure("listening for the wake word", _LISTENING, "W"),
    Figure("per transcript, net of listening", "transcript", "J", base=_LISTENING),
    Figure("per command by voice, net of listening", "command", "J", base=_LISTENING),
)


@suite("turns", help="play recordings to the daemon: wake word, transcript, calls and milliseconds of each")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--recordings", type=Path, required=True, metavar="DIR", help="a folder with manifest.json")
    add_audio_argument(parser)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these recordings")
    parser.add_argument("--rounds", type=int, default=1, help="how often to play all of them (default: 1)")
    add_power_options(parser)
    return _run


async def _run(args: argparse.Namespace) -> Report:
    recordings = await asyncio.to_thread(load_recordings, args.recordings, args.only)
    machine = await asyncio.to_thread(fingerprint)
    async with recording(args) as recorder:
        report = await _measured(args, machine, recordings, recorder)
    return with_energy(report, recorder, _ENERGY)


async def _measured(
    args: argparse.Namespace,
    machine: dict[str, Any],
    recordings: tuple[Recording, ...],
    recorder: Recorder | None,
) -> Report:
    turns: list[Turn] = []
    failures: list[dict[str, str]] = []
    async with Rig(audio=args.audio) as rig:
        await _warm_up(rig, recordings)
        if recorder is not None:
            with recorder.span(_LISTENING):
                await asyncio.sleep(_LISTEN_S)
        for _ in range(args.rounds):
            for one in recordings:
                begin, seen = time.monotonic(), len(rig.moments.all)
                try:
                    turn = await hear(one, rig.play, rig.moments)
                except TimedOut as error:
                    failures.append({"recording": one.name, "error": error.message})
                    print(f"  {one.name}: {error.message}", flush=True)
                    continue
                turns.append(turn)
                if recorder is not None:
                    _mark(recorder, turn, begin, rig.moments.all[seen:])
                print(f"  {one.name}: {turn.problem() or 'as expected'}", flush=True)
    return _report(args, machine, turns, failures)


def _mark(recorder: Recorder, turn: Turn, begin: float, moments: list[Moment]) -> None:
    """A command costs from the first sound to its outcome, a transcript while the recogniser works."""
    transcribed = turn.stages_ms["transcribe"]
    heard = next((m.at for m in moments if m.event.kind == "transcript" and m.event.data["final"]), None)
    if transcribed and heard is not None:
        recorder.mark("transcript", heard - transcribed / 1000, heard)
    ended = [moment.at for moment in moments if moment.event.kind == "finished"]
    if turn.calls and ended:
        recorder.mark("command", begin, ended[-1], len(turn.calls))


async def _warm_up(rig: Rig, recordings: tuple[Recording, ...]) -> None:
    """One turn that is not counted: it loads the speech model and fills the file cache."""
    first = next((recording for recording in recordings if recording.wake is not None and recording.text), None)
    if first is not None:
        await hear(first, rig.play, rig.moments)


def _report(
    args: argparse.Namespace, machine: dict[str, Any], turns: list[Turn], failures: list[dict[str, str]]
) -> Report:
    columns = ("recording", "wake", "score", "transcript", "calls", "by", *STAGES, "outcome ms", "problem")
    spoken = [turn for turn in turns if turn.recording.wake is not None]
    quiet = [turn for turn in turns if turn.recording.wake is None]
    with_calls = [turn for turn in turns if turn.recording.calls is not None]
    rates = [rate for turn in spoken if (rate := _word_error_rate(turn)) is not None]
    understood = [turn for turn in turns if turn.transcript is not None]  # without words nothing was timed
    budgets = {"transcribe": "<= 300 on a Pi 5"}
    measurements = [
        measured(
            "turn",
            stage,
            "ms",
            [turn.stages_ms[stage] for turn in understood],
            "" if stage == "listen" else "lower",
            budget=budgets.get(stage, ""),
        )
        for stage in STAGES
    ]
    outcomes = [turn.outcome_ms for turn in turns]
    measurements.append(measured("turn", "end of speech to outcome", "ms", outcomes))
    summary: dict[str, Any] = {
        "woke": [sum(turn.woke for turn in spoken), len(spoken)],
        "false_wakes": [sum(turn.woke for turn in quiet), len(quiet)],
        "calls_as_expected": [sum(turn.problem() is None for turn in with_calls), len(with_calls)],
        "word_error_rate": round(sum(rates) / len(rates), 4) if rates else None,
        "unfinished": len(failures),
    }
    counts: tuple[tuple[Cell, ...], ...] = tuple(
        (name.replace("_", " "), f"{summary[name][0]} of {summary[name][1]}" if summary[name][1] else None)
        for name in ("woke", "false_wakes", "calls_as_expected")
    )
    wer = summary["word_error_rate"]
    return Report(
        "turns",
        machine,
        {"recordings": str(args.recordings), "only": args.only, "audio": args.audio, "rounds": args.rounds},
        {"turns": [_to_dict(turn) for turn in turns], "unfinished": failures, "summary": summary},
        (
            Table("turns", columns, tuple(_row(turn) for turn in turns)),
            Table(
                "summary",
                ("what", "figure"),
                (
                    *counts,
                    ("word error rate", None if wer is None else f"{100 * wer:.1f} %"),
                    ("unfinished", len(failures)),
                ),
            ),
        ),
        ("listen is from the wake word to the end of speech, and so mostly the length of the sentence.",),
        ok=not failures and all(turn.problem() is None for turn in turns),
        measurements=tuple(measurements),
    )


def _row(turn: Turn) -> tuple[Cell, ...]:
    stages = (turn.stages_ms[stage] for stage in STAGES)
    score = None if turn.score is None else round(turn.score, 2)
    calls = show_calls(turn.calls) if turn.replies else None
    by = turn.replies[0].decided_by if turn.replies else None
    who = (turn.recording.name, turn.woke, score, turn.transcript)
    return (*who, calls, by, *stages, turn.outcome_ms, turn.problem())


def _to_dict(turn: Turn) -> dict[str, Any]:
    recording = turn.recording
    return {
        "recording": recording.name,
        "expected": {"wake": recording.wake, "text": recording.text, "calls": recording.calls},
        "snr_db": recording.snr_db,
        "woke": turn.woke,
        "keyword": turn.keyword,
        "score": turn.score,
        "transcript": turn.transcript,
        "word_error_rate": _word_error_rate(turn),
        "replies": [asdict(reply) for reply in turn.replies],
        "stages_ms": turn.stages_ms,
        "outcome_ms": turn.outcome_ms,
        "problem": turn.problem(),
    }


def _word_error_rate(turn: Turn) -> float | None:
    """None where the recording did not wake the daemon or holds no words: that is counted elsewhere."""
    if turn.transcript is None or turn.recording.wake is None:
        return None
    return word_error_rate(turn.recording.text, turn.transcript)
