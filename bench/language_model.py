"""The language model under test: which file, and a worker process of the daemon's kind that runs it."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import Failed, InvalidArguments, NotFound
from ..engines.handles import LanguageModelHandle
from ..engines.process import ProcessHost
from ..engines.protocols import Completion, Generation
from ..models.catalogue import Catalogue
from ..models.store import Store, default_root
from . import procfs
from .random_gguf import SIZES, random_model
from .workload import vocabulary_text

_TIMEOUT_S = 900.0
"""A cold prompt of a large model on a small board takes minutes."""


@dataclass(frozen=True)
class Model:
    """``identity`` tells one file from another in results: the catalogue's hash, or size and time of change."""

    name: str
    path: Path
    identity: str


@dataclass(frozen=True)
class Answer:
    """Seconds as the caller saw them, from the request to the first piece and to the end."""

    first_s: float
    total_s: float
    completion: Completion

    @property
    def decode_rate(self) -> float | None:
        """Tokens per second after the first; None for an answer too short to tell."""
        rest, seconds = self.completion.tokens - 1, self.completion.total_s - self.completion.first_token_s
        return rest / seconds if rest >= 8 and seconds > 0 else None


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """``--model``, ``--random``, ``--threads`` and ``--context``."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--model", default="smollm2-135m", metavar="ID|PATH", help="of the catalogue, or a .gguf (default: %(default)s)"
    )
    which.add_argument(
        "--random",
        choices=tuple(SIZES),
        help="random weights at the size of Qwen3.5 (made once, in the cache; 2b takes 1.2 GB)",
    )
    parser.add_argument("--threads", type=int, default=0, help="of the model (default: one fewer than the cores)")
    parser.add_argument("--context", type=int, default=2048, help="in tokens (default: %(default)s, the daemon's)")


def choose_model(args: argparse.Namespace) -> Model:
    """The model that the arguments name. Raises what the catalogue and the store raise; reads the disk."""
    if args.random:
        print(f"a random model of size {args.random}", flush=True)
        path = random_model(args.random, cache_folder(), vocabulary_text())
        return Model(f"random hybrid {args.random}", path, path.stem.rpartition("-")[2])
    if args.model.endswith(".gguf"):
        path = Path(args.model).expanduser().resolve()
        if not path.is_file():
            raise NotFound(f"{path} is missing; --model takes a .gguf or an id of `famulus models list`.")
        status = path.stat()
        return Model(path.stem, path, f"{status.st_size} bytes, {status.st_mtime_ns}")
    entry = Catalogue.load().entry(args.model)
    if entry.role != "llm":
        raise InvalidArguments(f"{entry.id} is a model for {entry.role}; choose a language model.")
    path = Store(default_root()).files(entry)["model"]
    return Model(entry.id, path, entry.files[0].sha256[:12])


def cache_folder() -> Path:
    """Where what can be made again is kept: ``$XDG_CACHE_HOME/famulus/bench``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "famulus" / "bench"


def threads_of(args: argparse.Namespace) -> int:
    """As the daemon chooses them."""
    return args.threads or max(1, (os.cpu_count() or 2) - 1)


class Worker:
    """One process of the daemon's worker program with the model loaded: ``start``, ``ask``, ``stop``."""

    def __init__(self, model: Model, *, threads: int, context: int, state_dir: Path | None = None) -> None:
        options: dict[str, Any] = {"model": str(model.path), "threads": threads, "context": context}
        if state_dir is not None:
            options["state_dir"] = str(state_dir)
        self.host = ProcessHost("llama_cpp", options, name=model.name)
        self._handle = LanguageModelHandle(self.host)

    async def start(self) -> float:
        """Load the model; the seconds it took, the start of the process among them."""
        begin = time.monotonic()
        await self.host.start(timeout_s=_TIMEOUT_S)
        return time.monotonic() - begin

    async def ask(self, prefix: str, suffix: str, *, grammar: str = "", max_tokens: int = 1) -> Answer:
        request = Generation(prefix=prefix, suffix=suffix, grammar=grammar, max_tokens=max_tokens)
        begin = time.monotonic()
        first = 0.0
        async for item in self._handle.generate(request, timeout_s=_TIMEOUT_S):
            now = time.monotonic() - begin
            if isinstance(item, Completion):
                return Answer(first or now, now, item)
            first = first or now
        raise Failed("The language model ended without an answer; see the worker's log at DEBUG.")

    async def rss_mb(self) -> float | None:
        """Of the process now."""
        found = await asyncio.to_thread(procfs.memory, self.host.pid or 0)
        return found.rss if found else None

    async def stop(self) -> None:
        """Waits until a prefix state that is being written is on disk."""
        await self.host.close(grace_s=15.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.host.exited.wait()


def drop_from_page_cache(path: Path) -> None:
    """Let the next read of the file come from the disk. What other processes have mapped stays."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
