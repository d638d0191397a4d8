"""The bus: how long an app waits for a sentence that needs no model, how many runs a second, how many signals."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..client.agent import connect
from ..core.errors import Failed, TimedOut
from ..models.store import default_root
from .bus_client import PACE_PER_S, SENTENCE
from .daemon import Daemon, private_environment
from .measurement import Measurement, measured
from .private_bus import PrivateBus
from .registry import Run, suite
from .report import Report, fingerprint
from .turn import Moments

_BUDGET = "<= 2 (8 clients)"
_ANSWER_S = 120.0


@suite("bus", help="round trips over D-Bus: Ask, Start and signals, with one client and with several")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8], metavar="N", help="(default: 1 8)")
    parser.add_argument("--calls", type=int, default=200, help="of each client in a round (default: 200)")
    parser.add_argument("--rounds", type=int, default=7, help="measured after one that is not (default: 7)")
    return _run


async def _run(args: argparse.Namespace) -> Report:
    machine = await asyncio.to_thread(fingerprint)
    counts = sorted(set(args.clients))
    taken = _Taken()
    models = str(await asyncio.to_thread(default_root))
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="famulus-bus-"))
        bus = await stack.enter_async_context(PrivateBus(Path(directory)))
        config = {"audio": {"source": "none"}, "llm": {"model": ""}, "storage": {"models": models}}
        daemon = Daemon(Path(directory), bus.address, config, {})
        stack.push_async_callback(daemon.stop)
        await daemon.start()
        clients = [await stack.enter_async_context(_Client(bus.address, Path(directory))) for _ in range(max(counts))]
        for count in counts:
            subject = f"{count} client{'s' if count > 1 else ''}"
            print(f"  {subject}", flush=True)
            for number in range(args.rounds + 1):
                taken.keep = number > 0
                paced = await _together(clients[:count], f"paced {args.calls // 4}")
                taken.waits(subject, f"Ask, {PACE_PER_S} a second each", paced)
                back = await _together(clients[:count], f"ask {args.calls}")
                taken.waits(subject, "Ask, back to back", back)
                taken.add(subject, "Ask", count * args.calls / max(answer["seconds"] for answer in back))
                await _starts(bus.address, clients[:count], args.calls, subject, taken)
    return Report(
        "bus",
        machine,
        {"clients": counts, "calls": args.calls, "rounds": args.rounds},
        {"refused_starts": taken.refused},
        (),
        (
            f"Each client is a process of its own and asks {SENTENCE!r}, which sentence templates decide. Back to "
            "back, a client asks the next as soon as it has an answer, so several clients wait for each other; at a "
            f"pace, each asks {PACE_PER_S} times a second. Start does not wait for the outcome; each client has four "
            "calls open. Signals are counted at one program that watches all runs. Clients, bus and daemon share the "
            "cores.",
            f"{taken.refused} starts were refused, since the daemon's queue was full.",
        ),
        measurements=taken.measurements(),
    )


class _Taken:
    """Samples of all rounds but the first."""

    def __init__(self) -> None:
        self.keep = False
        self.refused = 0
        self._samples: dict[tuple[str, str, str], list[float]] = {}

    def add(self, subject: str, figure: str, value: float, unit: str = "/s") -> None:
        if self.keep:
            self._samples.setdefault((subject, figure, unit), []).append(value)

    def waits(self, subject: str, figure: str, answers: list[dict[str, Any]]) -> None:
        """Median and 99th percentile over all calls of a round."""
        waits = sorted(ms for answer in answers for ms in answer["ms"])
        self.add(subject, f"{figure}: median", statistics.median(waits), "ms")
        self.add(subject, f"{figure}: p99", waits[min(len(waits) - 1, len(waits) * 99 // 100)], "ms")

    def measurements(self) -> tuple[Measurement, ...]:
        return tuple(
            measured(
                subject,
                figure,
                unit,
                samples,
                "lower" if unit == "ms" else "higher",
                budget=_BUDGET if figure.endswith("median") else "",
            )
            for (subject, figure, unit), samples in self._samples.items()
        )


async def _starts(address: str, clients: list[_Client], calls: int, subject: str, taken: _Taken) -> None:
    """Runs a second, and the signals about them that a watcher gets."""
    async with connect(address) as watcher, watcher.subscribe() as events:
        moments = Moments()
        watching = asyncio.create_task(moments.collect(events))
        try:
            begin = time.monotonic()
            answers = await _together(clients, f"start {calls}")
            refused = sum(answer["refused"] for answer in answers)
            runs = len(clients) * calls - refused
            if not await moments.until(lambda: moments.count("finished") >= runs, _ANSWER_S):
                ended = moments.count("finished")
                raise TimedOut(f"Only {ended} of {runs} runs were told to end within {_ANSWER_S:g} s.")
            seconds = time.monotonic() - begin
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    taken.add(subject, "Start", runs / max(answer["seconds"] for answer in answers))
    taken.add(subject, "signals to a watcher", len(moments.all) / seconds)
    taken.refused += refused


async def _together(clients: list[_Client], line: str) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(client.order(line) for client in clients)))


class _Client:
    """A process of bus_client.py that is ended with the block."""

    def __init__(self, address: str, directory: Path) -> None:
        self._argv = [sys.executable, "-m", "famulus.bench.bus_client", address]
        self._environment = private_environment(directory)
        self._process: asyncio.subprocess.Process | None = None

    async def order(self, line: str) -> dict[str, Any]:
        """Let it do something and give its answer."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await self._answer()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 22,
            start_new_session=True,
        )
        try:
            await self._answer()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()  # the end of its orders
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        try:
            async with asyncio.timeout(_ANSWER_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            raise TimedOut(f"A client of the bus did not answer within {_ANSWER_S:g} s.") from None
        if not line:
            raise Failed("A client of the bus ended; its reason stands above.")
        return dict(json.loads(line))
