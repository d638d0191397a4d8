"""What the daemon costs while nobody speaks: memory, processor time, wake-ups, and its time to ready."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..engines.protocols import SAMPLE_RATE
from . import procfs
from .power.cost import Figure
from .power.options import add_power_options, recording, with_energy
from .power.recorder import Recorder
from .registry import Run, suite
from .report import Cell, Report, Table, fingerprint, measured
from .rig import Rig, add_audio_argument

_NOISE_DBFS = -60.0
_PARTS = 8
_SAMPLE_S = 5.0  # reading smaps_rollup makes the kernel walk the page tables of the process that is measured

# The project's budgets for an x86 core and for a Raspberry Pi 4 core; shown beside the figures, never asserted.
_BUDGETS = {
    "RSS MB": "<= 70",
    "PSS MB": "<= 60",
    "CPU % of one core": "<= 1.5 (x86), <= 5 (Pi 4)",
    "ready s": "<= 1.5",
}

_ENERGY = (
    Figure("machine idle", "the machine is idle", "W"),
    Figure("listening for the wake word", "famulus listens", "W"),
    Figure("listening, net of the idle machine", "famulus listens", "W", base="the machine is idle"),
)
_ENERGY_WINDOWS = 5


@dataclass(frozen=True)
class ProcessCost:
    """One process over the window. Megabytes are the largest seen; percent is of one core."""

    command: str
    rss_mb: float
    pss_mb: float | None
    uss_mb: float | None
    cpu_percent: float
    switches_per_s: float


@suite("idle", help="memory, CPU and time to ready of the daemon while it listens for the wake word")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--seconds", type=float, default=60, help="length of the measured window (default: 60)")
    parser.add_argument("--warm-up", type=float, default=10, help="seconds before it (default: 10)")
    parser.add_argument("--starts", type=int, default=5, help="how often to measure the time to ready (default: 5)")
    add_audio_argument(parser)
    add_power_options(parser)
    return _run


async def _run(args: argparse.Namespace) -> Report:
    machine = await asyncio.to_thread(fingerprint)
    async with recording(args) as recorder:
        report = await _measured(args, machine, recorder)
    return with_energy(report, recorder, _ENERGY)


async def _measured(args: argparse.Namespace, machine: dict[str, Any], recorder: Recorder | None) -> Report:
    if recorder is not None:
        print(f"leaving the machine alone for {args.seconds:g} s", flush=True)
        begin = time.monotonic()
        await asyncio.sleep(args.seconds)
        _mark(recorder, "the machine is idle", begin, time.monotonic())
    ready = []
    for number in range(args.starts + 1):
        async with Rig(audio=args.audio, lamp=False) as rig:
            if number:  # the first start reads the files from disk: the warm-up
                ready.append(rig.daemon.ready_s)
    async with Rig(audio=args.audio, lamp=False) as rig:
        print(f"listening to a quiet room for {args.warm_up:g} + {args.seconds:g} s", flush=True)
        async with quiet_room(rig, args.warm_up + args.seconds):
            await asyncio.sleep(args.warm_up)
            begin = time.monotonic()
            window, costs, busy = await measure([rig.daemon.pid, *await rig.daemon.children()], args.seconds)
            if recorder is not None:
                _mark(recorder, "famulus listens", begin, begin + window)
            changed = len(await rig.daemon.children()) + 1 - len(costs)
    total = total_of(costs.values())
    rows: list[tuple[Cell, ...]] = [_row(str(pid), cost) for pid, cost in costs.items()]
    rows.append(_row("", total))
    measurements = (
        measured("daemon", "memory, RSS", "MB", [total.rss_mb], budget=_BUDGETS["RSS MB"]),
        measured("daemon", "memory, PSS", "MB", [total.pss_mb], budget=_BUDGETS["PSS MB"]),
        measured("daemon", "processor", "% of one core", busy, budget=_BUDGETS["CPU % of one core"]),
        measured("daemon", "time to ready", "s", ready, budget=_BUDGETS["ready s"], reason="--starts is 0"),
    )
    notes = ["The RSS of several processes counts shared pages more than once; PSS does not."] if len(costs) > 1 else []
    if changed:
        notes.append(f"{abs(changed)} processes came or went during the window and are not counted.")
    return Report(
        "idle",
        machine,
        {"seconds": round(window, 3), "warm_up_s": args.warm_up, "audio": args.audio, "noise_dbfs": _NOISE_DBFS},
        {
            "processes": {str(pid): asdict(cost) for pid, cost in costs.items()},
            "total": asdict(total),
        },
        (Table("processes", ("pid", "RSS MB", "PSS MB", "USS MB", "CPU %", "switches/s", "command"), tuple(rows)),),
        tuple(notes),
        measurements=measurements,
    )


def _mark(recorder: Recorder, stage: str, begin: float, end: float) -> None:
    """Several windows, so that the draw has a spread."""
    step = (end - begin) / _ENERGY_WINDOWS
    for number in range(_ENERGY_WINDOWS):
        recorder.mark(stage, begin + number * step, begin + (number + 1) * step)


@asynccontextmanager
async def quiet_room(rig: Rig, seconds: float) -> AsyncIterator[None]:
    """Faint noise at the microphone: digital silence is what no room gives, and may cost less than real sound."""
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as directory:
        recording = Path(directory) / "room.wav"
        await asyncio.to_thread(_write_noise, recording, seconds + 5)
        playing = asyncio.create_task(rig.play(recording, timeout_s=seconds + 30))
        try:
            yield
        finally:
            playing.cancel()
            await asyncio.wait([playing])
        if not playing.cancelled():
            playing.result()  # it could not be played: the figures are those of another room


def _write_noise(path: Path, seconds: float) -> None:
    import numpy as np
    import soundfile

    noise = np.random.default_rng(0).standard_normal(round(seconds * SAMPLE_RATE)) * 10 ** (_NOISE_DBFS / 20)
    soundfile.write(path, noise, SAMPLE_RATE, subtype="PCM_16")


async def measure(pids: list[int], seconds: float) -> tuple[float, dict[int, ProcessCost], list[float]]:
    """The real length of the window, the cost of each process that lived through it, and the processor time of all
    in percent of one core for each part of the window.
    """
    begin = last = time.monotonic()
    first = {pid: await asyncio.to_thread(procfs.usage, pid) for pid in pids}
    used = sum(usage.cpu_s for usage in first.values() if usage)
    samples: dict[int, list[procfs.Memory]] = {pid: [] for pid in pids}
    busy = []
    part_s = max(1.0, min(_SAMPLE_S, seconds / _PARTS))
    while (left := begin + seconds - time.monotonic()) > 0:
        for pid in pids:
            if found := await asyncio.to_thread(procfs.memory, pid):
                samples[pid].append(found)
        await asyncio.sleep(min(part_s, left))
        now = time.monotonic()
        if now - last >= part_s * 0.9:
            usages = [await asyncio.to_thread(procfs.usage, pid) for pid in pids]
            total = sum(usage.cpu_s for usage in usages if usage)
            busy.append(100 * (total - used) / (now - last))
            used, last = total, now
    window = time.monotonic() - begin
    costs = {}
    for pid in pids:
        before, after = first[pid], await asyncio.to_thread(procfs.usage, pid)
        if before is not None and after is not None and samples[pid]:
            costs[pid] = ProcessCost(
                command=await asyncio.to_thread(procfs.command, pid),
                rss_mb=max(sample.rss for sample in samples[pid]),
                pss_mb=known(max, (sample.pss for sample in samples[pid])),
                uss_mb=known(max, (sample.uss for sample in samples[pid])),
                cpu_percent=100 * (after.cpu_s - before.cpu_s) / window,
                switches_per_s=(after.switches - before.switches) / window,
            )
    return window, costs, busy


def total_of(costs: Iterable[ProcessCost]) -> ProcessCost:
    """All processes together; a figure that one of them lacks is None."""
    all_costs = list(costs)
    return ProcessCost(
        "total",
        sum(cost.rss_mb for cost in all_costs),
        known(sum, (cost.pss_mb for cost in all_costs)),
        known(sum, (cost.uss_mb for cost in all_costs)),
        sum(cost.cpu_percent for cost in all_costs),
        sum(cost.switches_per_s for cost in all_costs),
    )


def known(combine: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    """``combine`` of all values, None where one is not known."""
    collected = list(values)
    numbers = [value for value in collected if value is not None]
    return combine(numbers) if len(numbers) == len(collected) else None


def _row(pid: str, cost: ProcessCost) -> tuple[Cell, ...]:
    return (pid, cost.rss_mb, cost.pss_mb, cost.uss_mb, cost.cpu_percent, cost.switches_per_s, cost.command)
