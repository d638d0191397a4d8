"""An engine for tests that misbehaves on demand; a worker loads it as ``fake_engine:Fake``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from famulus.core.errors import InvalidArguments, ModelUnavailable
from famulus.engines.protocols import Completion, Generation, Job, Transcript


def _wait(seconds: float, job: Job) -> bool:
    """Wait, polling for a cancel as a good engine does; True when cancelled."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if job.cancelled:
            return True
        time.sleep(0.005)
    return False


class Fake:
    """``journal``: a file that gets one line per load begun and ended. The rest: how the load goes."""

    def __init__(
        self, load_s: float = 0, megabytes: int = 0, load: str = "ok", journal: str = "", fail_first: int = 0
    ) -> None:
        self._journal = journal
        self._note("begin")
        time.sleep(load_s)
        self._ballast = os.urandom(megabytes << 20)
        sys.stdout.write("native chatter on stdout\n")
        sys.stdout.flush()
        if load == "exit255":
            sys.stderr.write("tokens.txt is not base64\n")
            sys.stderr.flush()
            os._exit(255)
        if load == "missing" or (fail_first and self._count("begin") <= fail_first):
            raise ModelUnavailable("The model file is missing; fetch it.")
        if load == "bug":
            raise RuntimeError("a native library said no")
        self._note("end")

    def _note(self, word: str) -> None:
        if self._journal:
            with Path(self._journal).open("a") as file:
                file.write(f"{word} {os.getpid()}\n")

    def _count(self, word: str) -> int:
        return sum(line.startswith(word) for line in Path(self._journal).read_text().splitlines())

    def transcribe(self, pcm: bytes, job: Job) -> Transcript:
        """The audio's first bytes choose what happens."""
        command, _, argument = pcm.partition(b" ")
        match command:
            case b"wait":
                _wait(float(argument), job)
            case b"stuck":
                time.sleep(float(argument))
            case b"exit":
                sys.stderr.write("last words\n")
                sys.stderr.flush()
                os._exit(int(argument))
            case b"sysexit":
                sys.exit(3)
            case b"bug":
                raise ValueError("the secret words that somebody said")
            case b"refuse":
                raise InvalidArguments("The segment is too long; send at most 30 s.")
            case b"garbage":
                os.write(3, b"not a frame at all, but printed by a native library")
                time.sleep(5)
            case b"huge":
                return Transcript("x" * (70 << 20), 0, 0)
        return Transcript(f"{len(pcm)} bytes in {os.getpid()}", len(pcm) / 32000, 0.5)

    def prepare(self, prefix: str, job: Job) -> str:
        return "kept" if prefix == "again" else "decoded"

    def generate(self, request: Generation, job: Job) -> Iterator[str | Completion]:
        text = ""
        for number in range(request.max_tokens):
            if request.suffix == "stuck" and number == 2:
                time.sleep(30)
            piece = f"{number} é漢 "
            text += piece
            yield piece
            if request.suffix == "slow":
                time.sleep(0.01)
        yield Completion(text, "stop", request.max_tokens, len(request.prefix), "kept", 0.1, 0.2)

    def embed(self, texts: list[str], job: Job) -> list[list[float]]:
        return [[len(text) / 3, 1e-17, -1.0] for text in texts]

    def synthesize(self, text: str, language: str, job: Job) -> bytes:
        return f"{language}:{text}".encode()

    def close(self) -> None:
        self._note("close")
