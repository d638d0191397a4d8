"""How soon a cancelled request lets go: until the caller has it, and until the engine takes the next request."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from typing import Any, Literal

from .language_model import Model, Worker, add_model_options, choose_model, threads_of
from .measurement import Measurement, measured
from .registry import Run, suite
from .report import Report, fingerprint
from .workload import Prompt, make_prompt, story, suffix

_BUDGET = "<= 100"
_USABLE_S = 5.0
Phase = Literal["prefill", "decode"]


@suite("cancel", help="how soon a cancelled request lets go of the language model, in prefill and in decode")
def _setup(parser: argparse.ArgumentParser) -> Run:
    add_model_options(parser)
    parser.add_argument("--rounds", type=int, default=10, help="cancels in each phase (default: 10)")
    parser.add_argument("--commands", type=int, default=64, metavar="N", help="in the prompt (default: 64)")
    return _run


async def _run(args: argparse.Namespace) -> Report:
    machine = await asyncio.to_thread(fingerprint)
    model = await asyncio.to_thread(choose_model, args)
    machine["models"] = {model.name: {"model": model.identity}}
    prompt = make_prompt(args.commands, context=args.context)
    canceller = _Canceller(model, prompt, threads=threads_of(args), context=args.context)
    try:
        await canceller.start()
        for phase in ("prefill", "decode"):
            for _ in range(args.rounds + 1):
                await canceller.cancel_in(phase)
    finally:
        await canceller.worker.stop()
    return Report(
        "cancel",
        machine,
        {"model": model.name, "threads": threads_of(args), "context": args.context, "commands": args.commands},
        {"missed": canceller.missed, "workers_killed": canceller.killed},
        (),
        (
            "Prefill is while the model reads the prompt, decode while it writes the answer. "
            "The engine is usable when its worker has ended the cancelled request; a worker that takes more than 100 "
            f"ms is killed. Killed here: {canceller.killed}.",
        ),
        ok=canceller.killed == 0,
        measurements=tuple(canceller.measurements()),
    )


class _Canceller:
    """Cancels at moments spread over the phase; the first cancel of each phase is the warm-up."""

    def __init__(self, model: Model, prompt: Prompt, *, threads: int, context: int) -> None:
        self._model, self._threads, self._context = model, threads, context
        self.worker = self._make()
        self._prompt = prompt
        self._numbers = itertools.count()
        self._taken: dict[str, list[tuple[float, float]]] = {"prefill": [], "decode": []}
        self._phase_s: dict[str, float] = {}
        self.killed = 0
        self.missed = 0

    def _make(self) -> Worker:
        return Worker(self._model, threads=self._threads, context=self._context)

    async def start(self) -> None:
        """Load the model and learn how long its phases take."""
        await self.worker.start()
        cold = await self.worker.ask(self._prompt.prefix, suffix(0), max_tokens=1)
        told = await self.worker.ask(self._prompt.prefix, story(), max_tokens=96)
        self._phase_s = {"prefill": cold.first_s, "decode": max(told.total_s - told.first_s, 0.05)}

    async def cancel_in(self, phase: Phase) -> None:
        """One cancel; a request that had ended before is counted as missed."""
        number = next(self._numbers)
        host = self.worker.host
        settled = asyncio.Event()
        host.on_change = lambda: settled.set() if not host.settling else None
        # A prefix that was never read before, so that all of it must be read now.
        prefix = f"<!-- {number} -->{self._prompt.prefix}" if phase == "prefill" else self._prompt.prefix
        request = asyncio.create_task(self.worker.ask(prefix, story(), max_tokens=256))
        share = 0.2 + 0.6 * (number % 7) / 6
        await asyncio.sleep(self._phase_s[phase] * share)
        if request.done():
            self.missed += 1
            return
        begin = time.monotonic()
        request.cancel()
        await asyncio.wait([request])
        caller_s = time.monotonic() - begin
        while host.settling and time.monotonic() - begin < _USABLE_S:
            settled.clear()
            try:
                async with asyncio.timeout(0.2):
                    await settled.wait()
            except TimeoutError:
                continue
        usable_s = time.monotonic() - begin
        if host.exited.is_set() or not host.alive:
            self.killed += 1
            self.worker = self._make()
            await self.start()
            return
        self._taken[phase].append((caller_s * 1000, usable_s * 1000))
        if phase == "prefill":  # the old prefix stays; the next one must not find it half read
            await self.worker.ask(self._prompt.prefix, suffix(number), max_tokens=1)

    def measurements(self) -> list[Measurement]:
        found = []
        for phase, pairs in self._taken.items():
            rest: list[tuple[float, float]] = pairs[1:]
            why: dict[str, Any] = {"reason": "every request ended before it could be cancelled"}
            found.append(measured(phase, "until the caller has it", "ms", [one for one, _ in rest], **why))
            found.append(
                measured(phase, "until the engine is usable", "ms", [two for _, two in rest], budget=_BUDGET, **why)
            )
        return found
