"""``llama_cpp.server`` with the same model file: what a person would run instead, asked in the same run."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import Failed, TimedOut
from . import procfs
from .daemon import private_environment
from .processes import ManagedProcess

_NEEDED = ("uvicorn", "fastapi", "pydantic_settings", "sse_starlette", "starlette_context")
_START_S = 180.0
_ANSWER_S = 900.0


def peer_missing() -> str:
    """Why the server cannot be run here; ``""`` where it can."""
    absent = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    return f"llama_cpp.server needs {', '.join(absent)}: pip install 'famulus[peers]'" if absent else ""


@dataclass(frozen=True)
class PeerAnswer:
    """Seconds as the client saw them; ``tokens`` are pieces that came."""

    first_s: float
    total_s: float
    tokens: int

    @property
    def decode_rate(self) -> float | None:
        rest, seconds = self.tokens - 1, self.total_s - self.first_s
        return rest / seconds if rest >= 8 and seconds > 0 else None


class PeerServer:
    """A server of its own on loopback. ``disk_cache`` is its ``--cache_type disk``, kept in ``directory``."""

    def __init__(self, model: Path, directory: Path, *, threads: int, context: int, disk_cache: bool = False) -> None:
        self._port = _free_port()
        argv = [
            *(sys.executable, "-m", "famulus.bench.peer_program", "--model", str(model), "--host", "127.0.0.1"),
            *("--port", str(self._port), "--n_ctx", str(context), "--n_threads", str(threads)),
            *("--n_threads_batch", str(threads), "--verbose", "false"),
        ]
        if disk_cache:
            argv += ["--cache", "true", "--cache_type", "disk"]
        self.process = ManagedProcess("llama_cpp.server", argv, env=private_environment(directory), cwd=directory)

    async def start(self) -> float:
        """Returns when it answers; the seconds from its start until then."""
        begin = time.monotonic()
        await self.process.start()
        while time.monotonic() - begin < _START_S:
            if not self.process.running:
                raise self.process.failure("ended before it answered")
            if await asyncio.to_thread(self._answers):
                return time.monotonic() - begin
            await asyncio.sleep(0.02)
        raise self.process.failure(f"did not answer within {_START_S:g} s", TimedOut)

    async def ask(self, prompt: str, *, max_tokens: int) -> PeerAnswer:
        """A streamed completion at temperature 0."""
        try:
            return await asyncio.to_thread(self._ask, prompt, max_tokens)
        except Failed as error:
            await asyncio.sleep(0.5)  # its last lines, and its end, may still be on their way
            raise self.process.failure(f"broke off an answer ({error.message})") from error

    async def rss_mb(self) -> float | None:
        """Of the process now."""
        found = await asyncio.to_thread(procfs.memory, self.process.pid)
        return found.rss if found else None

    async def stop(self) -> None:
        await self.process.stop()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request("GET", "/v1/models")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _ask(self, prompt: str, max_tokens: int) -> PeerAnswer:
        body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True})
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_S)
        begin = time.monotonic()
        first, tokens = 0.0, 0
        try:
            connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise Failed(f"status {response.status}: {response.read(300)!r}")
            for chunk in _events(response):
                if chunk["choices"][0]["text"]:
                    tokens += 1
                    first = first or time.monotonic() - begin
        except (OSError, http.client.HTTPException) as error:
            raise Failed(repr(error)) from error
        finally:
            connection.close()
        total = time.monotonic() - begin
        return PeerAnswer(first or total, total, tokens)


def _events(response: http.client.HTTPResponse) -> Iterator[Any]:
    for line in response:
        text = line.decode("utf-8", "replace").strip()
        if text.startswith("data:") and not text.endswith("[DONE]"):
            yield json.loads(text.removeprefix("data:"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
