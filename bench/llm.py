"""The language model: load, first token cold, warm and after a restart, tokens per second; beside llama_cpp.server."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from ..core.errors import Failed
from .compare import ratio_interval
from .language_model import Model, Worker, add_model_options, choose_model, drop_from_page_cache, threads_of
from .machine import fingerprint
from .measurement import Better, Measurement, measured
from .peer import PeerServer, peer_missing
from .power.cost import Figure
from .power.options import add_power_options, recording, with_energy
from .power.recorder import Recorder
from .registry import Run, suite
from .report import Cell, Report, Table
from .workload import MOST, Prompt, make_prompt, story, suffix

_STORY_TOKENS = 64
_COMMAND_TOKENS = 96
_WARM_PER_ROUND = 2
_IDLE_S = 5.0
_IDLE = "the model is loaded and idle"
_ENERGY = (
    Figure("model loaded, idle", _IDLE, "W"),
    Figure("per prompt token, net of idle", "prefill", "J", base=_IDLE),
    Figure("per generated token, net of idle", "decode", "J", base=_IDLE),
    Figure("per command by text, net of idle", "command", "J", base=_IDLE),
)

# Figure → unit, which way is better, budget.
_COLD, _WARM, _DISK = (
    "first token after a restart, nothing kept",
    "first token, prefix kept",
    "first token after a restart, prefix from disk",
)
_FIGURES: dict[str, tuple[str, Better, str]] = {
    "load": ("s", "lower", ""),
    "load, file not in the page cache": ("s", "lower", ""),
    _COLD: ("ms", "lower", ""),
    _WARM: ("ms", "lower", "<= 500 (2B, Pi 5)"),
    _DISK: ("ms", "lower", "<= 500 (2B, Pi 5)"),
    "load and first token, prefix from disk": ("ms", "lower", ""),
    "first token of a command, under its grammar": ("ms", "lower", ""),
    "prefill": ("tokens/s", "higher", ""),
    "decode": ("tokens/s", "higher", ""),
    "memory in use": ("MB", "lower", ""),
}

Samples = dict[tuple[str, str], list[float]]


@suite("llm", help="load, first token and tokens per second of the language model, beside llama_cpp.server")
def _setup(parser: argparse.ArgumentParser) -> Run:
    add_model_options(parser)
    parser.add_argument("--rounds", type=int, default=5, help="restarts measured for each size (default: 5)")
    parser.add_argument(
        "--commands",
        type=int,
        nargs="+",
        default=[16, 64, 256],
        metavar="N",
        help=f"registered commands, up to {MOST} (default: 16 64 256)",
    )
    parser.add_argument("--no-peer", action="store_true", help="leave llama_cpp.server out")
    parser.add_argument(
        "--no-peer-disk",
        action="store_true",
        help="leave its disk cache out, which writes the logits of all positions: gigabytes for a large vocabulary",
    )
    add_power_options(parser)
    return _run


async def _run(args: argparse.Namespace) -> Report:
    machine = await asyncio.to_thread(fingerprint)
    model = await asyncio.to_thread(choose_model, args)
    machine["models"] = {model.name: {"model": model.identity}}
    async with recording(args) as recorder:
        report = await _Suite(args, model, recorder).run(machine)
    return with_energy(report, recorder, _ENERGY)


class _Suite:
    """One run: collects samples by subject and figure."""

    def __init__(self, args: argparse.Namespace, model: Model, recorder: Recorder | None) -> None:
        self._rounds = max(args.rounds, 1)
        self._counts = sorted(set(args.commands))
        self._peer = not args.no_peer
        self._peer_disk = not args.no_peer_disk
        self._threads, self._context = threads_of(args), args.context
        self._model = model
        self._recorder = recorder
        self._samples: Samples = defaultdict(list)
        self._prefix_tokens: dict[int, int] = {}
        self._sentences = itertools.count()
        self._notes: list[str] = []

    async def run(self, machine: dict[str, Any]) -> Report:
        prompts = [make_prompt(count, context=self._context) for count in self._counts]
        with tempfile.TemporaryDirectory(prefix="famulus-bench-", ignore_cleanup_errors=True) as directory:
            await self._own_round(prompts[0], Path(directory) / "warm-up", keep=False)
            await self._loads()
            missing = peer_missing()
            for number in range(self._rounds):
                print(f"  round {number + 1}/{self._rounds}", flush=True)
                for prompt in prompts:
                    await self._own_round(prompt, Path(directory) / f"{number}-{prompt.commands}", keep=True)
                if self._peer and not missing:
                    for disk in (False, True) if self._peer_disk else (False,):
                        await self._peer_round(prompts[0], Path(directory) / f"peer-{number}-{disk}", disk=disk)
            if self._recorder is not None:
                await self._energy(prompts[0], self._recorder)
        if self._peer and missing:
            self._notes.append(f"{missing}; its rows are empty.")
        return self._report(machine, missing if self._peer else "")

    async def _loads(self) -> None:
        """The whole file from the disk, then from the page cache."""
        for number in range(self._rounds + 1):
            for figure in ("load, file not in the page cache", "load"):
                if figure != "load":
                    await asyncio.to_thread(drop_from_page_cache, self._model.path)
                worker = self._worker(None)
                try:
                    seconds = await worker.start()
                finally:
                    await worker.stop()
                if number:
                    self._samples[self._model.name, figure].append(seconds)

    async def _own_round(self, prompt: Prompt, states: Path, *, keep: bool) -> None:
        """Two lives of a worker with one folder of states: the first knows nothing, the second finds the prefix."""
        subject = f"famulus, {prompt.commands} commands"
        taken: Samples = defaultdict(list)
        worker = self._worker(states)
        try:
            await worker.start()
            begin = time.monotonic()
            cold = await worker.ask(prompt.prefix, self._next(), max_tokens=1)
            if self._recorder is not None and keep:
                self._recorder.mark("prefill", begin, begin + cold.first_s, cold.completion.prompt_tokens)
            self._check(cold.completion.prefix_source, "decoded")
            taken[subject, _COLD].append(cold.first_s * 1000)
            taken[subject, "prefill"].append(cold.completion.prompt_tokens / cold.completion.first_token_s)
            self._prefix_tokens[prompt.commands] = cold.completion.prompt_tokens
            for _ in range(_WARM_PER_ROUND):
                warm = await worker.ask(prompt.prefix, self._next(), max_tokens=1)
                self._check(warm.completion.prefix_source, "kept")
                taken[subject, _WARM].append(warm.first_s * 1000)
            command = await worker.ask(prompt.prefix, self._next(), grammar=prompt.grammar, max_tokens=1)
            taken[subject, "first token of a command, under its grammar"].append(command.first_s * 1000)
            told = await worker.ask(prompt.prefix, story(), max_tokens=_STORY_TOKENS)
            if told.decode_rate is not None:
                taken[subject, "decode"].append(told.decode_rate)
            if (rss := await worker.rss_mb()) is not None:
                taken[subject, "memory in use"].append(rss)
        finally:
            await worker.stop()
        worker = self._worker(states)
        try:
            load_s = await worker.start()
            disk = await worker.ask(prompt.prefix, self._next(), max_tokens=1)
            self._check(disk.completion.prefix_source, "disk")
            taken[subject, _DISK].append(disk.first_s * 1000)
            taken[subject, "load and first token, prefix from disk"].append((load_s + disk.first_s) * 1000)
        finally:
            await worker.stop()
        if keep:
            self._take(taken)

    async def _peer_round(self, prompt: Prompt, directory: Path, *, disk: bool) -> None:
        subject = f"llama_cpp.server{' --cache_type disk' if disk else ''}, {prompt.commands} commands"
        await asyncio.to_thread(directory.mkdir)
        taken: Samples = defaultdict(list)
        server = self._server(directory, disk)
        try:
            taken[subject, "load"].append(await server.start())
            cold = await server.ask(prompt.prefix + self._next(), max_tokens=1)
            taken[subject, _COLD].append(cold.first_s * 1000)
            for _ in range(_WARM_PER_ROUND):
                warm = await server.ask(prompt.prefix + self._next(), max_tokens=1)
                taken[subject, _WARM].append(warm.first_s * 1000)
            told = await server.ask(prompt.prefix + story(), max_tokens=_STORY_TOKENS)
            if told.decode_rate is not None:
                taken[subject, "decode"].append(told.decode_rate)
            if (rss := await server.rss_mb()) is not None:
                taken[subject, "memory in use"].append(rss)
        finally:
            await server.stop()
        if disk:
            server = self._server(directory, disk)
            try:
                load_s = await server.start()
                again = await server.ask(prompt.prefix + self._next(), max_tokens=1)
                taken[subject, _DISK].append(again.first_s * 1000)
                taken[subject, "load and first token, prefix from disk"].append((load_s + again.first_s) * 1000)
            finally:
                await server.stop()
        self._take(taken)

    async def _energy(self, prompt: Prompt, recorder: Recorder) -> None:
        """Idle with the model loaded, then spans long enough for a slow sensor."""
        worker = self._worker(None)
        try:
            await worker.start()
            await worker.ask(prompt.prefix, self._next(), max_tokens=1)
            for _ in range(self._rounds):
                with recorder.span(_IDLE):
                    await asyncio.sleep(_IDLE_S)
                begin = time.monotonic()
                told = await worker.ask(prompt.prefix, story(), max_tokens=_STORY_TOKENS)
                recorder.mark("decode", begin + told.first_s, begin + told.total_s, max(told.completion.tokens - 1, 1))
                begin, done = time.monotonic(), 0
                while done < 2 or time.monotonic() - begin < _IDLE_S:
                    await worker.ask(prompt.prefix, self._next(), grammar=prompt.grammar, max_tokens=_COMMAND_TOKENS)
                    done += 1
                recorder.mark("command", begin, time.monotonic(), done)
        finally:
            await worker.stop()

    def _worker(self, states: Path | None) -> Worker:
        return Worker(self._model, threads=self._threads, context=self._context, state_dir=states)

    def _server(self, directory: Path, disk: bool) -> PeerServer:
        return PeerServer(self._model.path, directory, threads=self._threads, context=self._context, disk_cache=disk)

    def _next(self) -> str:
        return suffix(next(self._sentences))

    def _check(self, source: str, expected: str) -> None:
        if source != expected:
            raise Failed(f"The prefix came from {source!r} where {expected!r} was to be measured; this is a fault.")

    def _take(self, taken: Samples) -> None:
        for key, values in taken.items():
            self._samples[key] += values

    def _report(self, machine: dict[str, Any], missing: str) -> Report:
        subjects = [self._model.name, *(f"famulus, {count} commands" for count in self._counts)]
        own = self._measurements(subjects, "")
        first = self._counts[0]
        peers = [f"llama_cpp.server, {first} commands"]
        if self._peer_disk:
            peers.append(f"llama_cpp.server --cache_type disk, {first} commands")
        figures = [*own, *(self._measurements(peers, missing) if self._peer else [])]
        prefixes: list[tuple[Cell, ...]] = [(count, self._prefix_tokens.get(count)) for count in self._counts]
        return Report(
            "llm",
            machine,
            {
                "model": self._model.name,
                "threads": self._threads,
                "context": self._context,
                "commands": self._counts,
                "rounds": self._rounds,
                "peer": self._peer and not missing and (self._peer_disk or "memory only"),
            },
            {
                "model": {"name": self._model.name, "identity": self._model.identity},
                "prompt_tokens": self._prefix_tokens,
            },
            (
                Table(
                    "what the model reads before its first token", ("registered commands", "tokens"), tuple(prefixes)
                ),
                self._ratios(),
            ),
            (
                "The first token is what a person waits for: from the request to the first piece of the answer. The "
                "prefix is the part of the prompt that all sentences share, the commands and examples; prefill is "
                "reading a prompt, decode is writing the answer. llama_cpp.server is the OpenAI-compatible server that "
                "comes with the same library, with the same file and the same number of threads; on processors with "
                "AMX both run without its kernels, which crash (ggml-org/llama.cpp#20824).",
                f"The model is {self._model.name} ({self._model.identity}) with {self._threads} threads and a context "
                f"of {self._context} tokens. Commands that do not fit into the context are left out of the prompt, as "
                "in the daemon. Times are the caller's, over the worker's pipe or HTTP on loopback.",
                *self._notes,
            ),
            measurements=tuple(figures),
        )

    def _measurements(self, subjects: list[str], reason: str) -> list[Measurement]:
        found = []
        for subject in subjects:
            for figure, (unit, better, budget) in _FIGURES.items():
                samples = self._samples.get((subject, figure), [])
                if samples or (reason and figure in (_COLD, _WARM, "decode")):
                    found.append(measured(subject, figure, unit, samples, better, budget=budget, reason=reason))
        return found

    def _ratios(self) -> Table:
        """Ratios within this run hold where absolute figures depend on the machine's other work."""
        least, most = self._counts[0], self._counts[-1]
        small, large = f"famulus, {least} commands", f"famulus, {most} commands"
        server, disk = f"llama_cpp.server, {least} commands", f"llama_cpp.server --cache_type disk, {least} commands"
        wanted = [
            ("first token of famulus: nothing kept / prefix kept", (small, _COLD), (small, _WARM)),
            ("first token of famulus after a restart: nothing kept / prefix from disk", (small, _COLD), (small, _DISK)),
            (f"first token of famulus, prefix kept: {most} commands / {least}", (large, _WARM), (small, _WARM)),
            ("first token, prefix kept: llama_cpp.server / famulus", (server, _WARM), (small, _WARM)),
            ("first token after a restart: llama_cpp.server / famulus", (server, _COLD), (small, _DISK)),
            ("first token after a restart: llama_cpp.server, disk cache / famulus", (disk, _DISK), (small, _DISK)),
            ("tokens per second of decode: llama_cpp.server / famulus", (server, "decode"), (small, "decode")),
        ]
        rows: list[tuple[Cell, ...]] = []
        for text, over, under in wanted:
            ones, others = self._samples.get(over, []), self._samples.get(under, [])
            if ones and others:
                ratio, low, high = ratio_interval(ones, others)
                rows.append((text, ratio, None if low is None else f"{low:.2f}–{high:.2f}"))
            else:
                rows.append((text, None, None))
        return Table("ratios within this run", ("what, divided by what", "times", "99 % interval"), tuple(rows))
