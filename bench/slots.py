"""What a model costs to load and what comes back when it is unloaded."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..core.errors import Failed
from ..daemon.models import ModelSlots, make_pool
from ..daemon.settings import Settings
from ..engines.handles import LanguageModelHandle, RecognizerHandle
from ..engines.protocols import BYTES_PER_SECOND, Generation
from ..engines.slot import Slot
from ..models.catalogue import Catalogue
from ..models.store import Store, default_root
from . import procfs
from .registry import Run, suite
from .report import Cell, Measurement, Report, Table, fingerprint, measured

_MIN_ROUNDS = 3
_LOAD_S = 120.0
_BUDGET = "within 5 MB of before"


@dataclass(frozen=True)
class Round:
    """One load and unload. Megabytes; ``parent_*`` are PSS of the process that owns the slot."""

    load_s: float
    first_use_s: float
    unload_s: float
    worker_rss_mb: float
    worker_pss_mb: float | None
    parent_before_mb: float | None
    parent_loaded_mb: float | None
    parent_after_mb: float | None
    worker_gone: bool


@suite("slots", help="load and unload of the speech model and the language model: seconds and memory")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--rounds", type=int, default=5, help="measured loads of each (default: 5, at least 3)")
    parser.add_argument("--asr", default="moonshine-tiny-en", metavar="ID", help="speech model (default: %(default)s)")
    parser.add_argument("--llm", default="smollm2-135m", metavar="ID", help="language model (default: %(default)s)")
    return _run


async def _run(args: argparse.Namespace) -> Report:
    machine = fingerprint()
    rounds = max(args.rounds, _MIN_ROUNDS)
    results: dict[str, list[Round]] = {}
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as cache:
        settings = Settings.model_validate(
            {
                "asr": {"model": args.asr, "keep_alive_s": -1},
                "llm": {"model": args.llm, "keep_alive_s": -1},
                "storage": {"cache": cache},
            }
        )
        slots = ModelSlots(settings, Catalogue.load(), Store(default_root()), make_pool(settings.memory))
        results[args.asr] = await _measure(slots.recognizer(), _transcribe, rounds)
        if (language_model := slots.language_model()) is not None:
            results[args.llm] = await _measure(language_model, _generate, rounds)
    return _report(
        machine, {"rounds": rounds, "asr": settings.asr.model_dump(), "llm": settings.llm.model_dump()}, results
    )


async def _transcribe(handle: RecognizerHandle) -> None:
    await handle.transcribe(bytes(2 * BYTES_PER_SECOND), timeout_s=_LOAD_S)


async def _generate(handle: LanguageModelHandle) -> None:
    request = Generation(prefix="You are a helpful assistant.\n", suffix="Say hello.\n", max_tokens=4)
    async for _ in handle.generate(request, timeout_s=_LOAD_S):
        pass


async def _measure(slot: Slot[Any], use: Callable[[Any], Any], rounds: int) -> list[Round]:
    measured = []
    try:
        for number in range(rounds + 1):
            done = await _round(slot, use)
            if number:  # the first round reads the file from disk and imports what the parent needs
                measured.append(done)
                print(f"  {slot.name} {number}/{rounds}: load {done.load_s:.2f} s", flush=True)
    finally:
        await slot.close()
    return measured


async def _round(slot: Slot[Any], use: Callable[[Any], Any]) -> Round:
    """The worker is measured after its first request, since some of its memory is only taken then."""
    before = await _own_pss()
    begin = time.monotonic()
    async with slot.lease(timeout_s=_LOAD_S) as handle:
        loaded = time.monotonic()
        pid = slot.snapshot().pid
        if pid is None:
            raise Failed(f"{slot.name} has no worker process to measure.")
        await use(handle)
        used = time.monotonic()
        worker = await asyncio.to_thread(procfs.memory, pid)
        parent = await _own_pss()
    if worker is None:
        raise Failed(f"The worker of {slot.name} ended while it was measured.")
    unloading = time.monotonic()
    await slot.unload()
    unloaded = time.monotonic()
    return Round(
        load_s=loaded - begin,
        first_use_s=used - loaded,
        unload_s=unloaded - unloading,
        worker_rss_mb=worker.rss,
        worker_pss_mb=worker.pss,
        parent_before_mb=before,
        parent_loaded_mb=parent,
        parent_after_mb=await _own_pss(),
        worker_gone=await asyncio.to_thread(procfs.memory, pid) is None,
    )


async def _own_pss() -> float | None:
    own = await asyncio.to_thread(procfs.memory, os.getpid())
    return own.pss if own else None


def _report(machine: dict[str, Any], parameters: dict[str, Any], results: dict[str, list[Round]]) -> Report:
    left: list[tuple[Cell, ...]] = [
        (name, max(_left(rounds), default=None), all(done.worker_gone for done in rounds), _BUDGET)
        for name, rounds in results.items()
    ]
    return Report(
        "slots",
        machine,
        parameters,
        {name: {"rounds": [asdict(done) for done in rounds]} for name, rounds in results.items()},
        (Table("what stays after unload", ("model", "parent MB, most", "worker gone", "budget"), tuple(left)),),
        ("PSS of worker and parent, RSS where it says so. First use: 2 s of silence, or a prompt and 4 tokens.",),
        measurements=tuple(figure for name, rounds in results.items() for figure in _figures(name, rounds)),
    )


def _left(rounds: list[Round]) -> list[float]:
    """Megabytes that the parent kept, per round."""
    return [
        done.parent_after_mb - done.parent_before_mb
        for done in rounds
        if done.parent_after_mb is not None and done.parent_before_mb is not None
    ]


def _figures(name: str, rounds: list[Round]) -> list[Measurement]:
    no_pss = "the kernel tells no PSS"
    return [
        measured(name, "load", "s", [done.load_s for done in rounds]),
        measured(name, "first use", "s", [done.first_use_s for done in rounds]),
        measured(name, "unload", "s", [done.unload_s for done in rounds]),
        measured(name, "worker RSS", "MB", [done.worker_rss_mb for done in rounds]),
        measured(name, "worker PSS", "MB", [done.worker_pss_mb for done in rounds], reason=no_pss),
        measured(name, "parent while loaded", "MB", [done.parent_loaded_mb for done in rounds], reason=no_pss),
        measured(name, "parent after - before", "MB", _left(rounds), "", budget="within 5", reason=no_pss),
    ]
