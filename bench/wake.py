"""The wake word engines: what listening costs, and how often they hear wrongly."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import Failed, TimedOut
from ..engines.protocols import SAMPLE_RATE
from ..models.store import default_root
from .measurement import Measurement, measured
from .recordings import load_recordings
from .registry import Run, suite
from .report import Cell, Report, Table, fingerprint

_BUNDLED = Path(__file__).resolve().parents[1] / "tests" / "data" / "audio"
_WORDS = {
    "micro": ("hey_jarvis", "okay_nabu", "hey_mycroft"),
    "openwakeword": ("hey_jarvis", "alexa", "hey_mycroft"),
}
_PARTS = 8
_SPARE_S = 120.0
_NOISE_DBFS = -60.0


@suite("wake", help="the wake word engines: processor and memory for 1 and 3 words, false accepts and rejects")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--seconds", type=float, default=20, help="of listening for each row (default: 20)")
    parser.add_argument(
        "--chatter",
        type=Path,
        default=_BUNDLED / "no_wake_chatter.flac",
        metavar="FILE",
        help="speech without the word",
    )
    parser.add_argument(
        "--recordings", type=Path, default=_BUNDLED, metavar="DIR", help="judged: a folder with manifest.json"
    )
    return _run


@dataclass(frozen=True)
class _Listening:
    engine: str
    words: int
    stream: str
    answer: dict[str, Any]

    @property
    def subject(self) -> str:
        if self.engine == "none":
            return f"no engine, {self.stream}"
        return f"{self.engine}, {self.words} word{'s' if self.words > 1 else ''}, {self.stream}"


async def _run(args: argparse.Namespace) -> Report:
    machine = await asyncio.to_thread(fingerprint)
    await asyncio.to_thread(load_recordings, args.recordings)  # refuse a bad folder before minutes of work
    rows: list[_Listening] = []
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as directory:
        silence = Path(directory) / "silence.wav"
        await asyncio.to_thread(_write_noise, silence)
        streams = {"silence": silence, "chatter": args.chatter}
        kinds = [("none", 0), *((engine, words) for engine in _WORDS for words in (1, 3))]
        for engine, words in kinds:
            for stream, path in streams.items():
                print(f"  {engine}, {words} words, {stream}", flush=True)
                order = {"what": "listen", "recording": str(path), "seconds": args.seconds, "parts": _PARTS}
                answer = await _order(engine, words, order, args.seconds)
                rows.append(_Listening(engine, words, stream, answer))
    judged = {
        engine: await _order(engine, 1, {"what": "judge", "folder": str(args.recordings)}, 0.0) for engine in _WORDS
    }
    figures, notes = [], []
    for engine, answer in judged.items():
        if "error" in answer:
            notes.append(f"{engine} was not judged: {answer['error']}")
            judged[engine] = {}
    for row in rows:
        figures += _figures(row)
    return Report(
        "wake",
        machine,
        {"seconds": args.seconds, "recordings": args.recordings.name, "chatter": args.chatter.name},
        {"judged": judged},
        (_verdicts(judged),),
        (
            "Each row is a process of its own that is fed 80 ms at a time at the pace of a microphone. 'No engine' is "
            "the same process without one: subtract it for the engine alone. Memory holds Python and numpy.",
            f"Silence is noise at {_NOISE_DBFS:g} dBFS. Rejects and accepts are counted with one word, "
            f"{_WORDS['micro'][0]}, over few recordings: they show a broken engine, not a rate.",
            *notes,
        ),
        measurements=tuple(figures),
    )


def _figures(row: _Listening) -> list[Measurement]:
    answer = row.answer
    reason = answer.get("error", "")
    figures = [
        measured(row.subject, "processor", "% of one core", answer.get("cpu_percent", []), reason=reason),
        measured(row.subject, "memory, RSS", "MB", [answer.get("rss_mb")], reason=reason),
    ]
    if row.engine != "none":
        figures.append(measured(row.subject, "false accepts", "", [answer.get("hits")], reason=reason))
    return figures


def _verdicts(judged: dict[str, dict[str, Any]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for engine, heard in judged.items():
        if not heard:
            rows.append((engine, None, None, None, None))
            continue
        word = _WORDS[engine][0]
        spoken = [one for one in heard.values() if one["wake"] and one["wake"].replace(" ", "_") == word]
        others = [one for one in heard.values() if one not in spoken]
        rejects = sum(word not in one["hits"] for one in spoken)
        accepts = sum(len(one["hits"]) for one in others) + sum(max(0, len(one["hits"]) - 1) for one in spoken)
        hours = sum(one["seconds"] for one in heard.values()) / 3600
        share = f"{100 * rejects / len(spoken):.0f} %" if spoken else None
        rows.append((engine, f"{rejects} of {len(spoken)}", share, accepts, round(hours * 60, 2)))
    columns = ("engine", "false rejects", "share", "false accepts", "minutes of audio")
    return Table("heard wrongly", columns, tuple(rows))


async def _order(engine: str, words: int, order: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Let a process of its own do it; its answer, which may be ``{"error": …}``."""
    keywords = list(_WORDS.get(engine, ())[:words])
    models = str(await asyncio.to_thread(default_root))
    told = json.dumps({**order, "engine": engine, "keywords": keywords, "models": models})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "famulus.bench.wake_listener"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds + _SPARE_S):
            out, _ = await process.communicate(told.encode())
    except TimeoutError:
        raise TimedOut(f"{engine} did not listen to its end within {seconds + _SPARE_S:g} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise Failed(f"The process that listens with {engine} ended with code {process.returncode}.")
    return dict(json.loads(out))


def _write_noise(path: Path) -> None:
    import numpy as np
    import soundfile

    noise = np.random.default_rng(0).standard_normal(10 * SAMPLE_RATE) * 10 ** (_NOISE_DBFS / 20)
    soundfile.write(path, noise, SAMPLE_RATE, subtype="PCM_16")
