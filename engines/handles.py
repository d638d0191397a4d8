"""What a slot lends out: the engine protocols of protocols.py, awaited instead of called.

Cancelling the task that waits, or closing the iterator, cancels the request in the engine. Every method raises
``TimedOut`` after ``timeout_s`` seconds, ``ModelUnavailable`` when the engine dies, and what the engine raises.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from ..core.errors import Failed
from .host import Host
from .protocols import Completion, Generation, Transcript


class Handle:
    """The part all handles share: valid from the start of a lease to its end."""

    def __init__(self, host: Host) -> None:
        self._host: Host | None = host

    def detach(self) -> None:
        """End the handle's life; its requests that still run are cancelled."""
        if self._host:
            self._host.cancel_all()
        self._host = None

    @property
    def _engine(self) -> Host:
        if self._host is None:
            raise Failed("The lease of this engine has ended; lease it again.")
        return self._host

    async def _call(self, method: str, *args: Any, timeout_s: float) -> Any:
        return await self._engine.call(method, *args, timeout_s=timeout_s)


class RecognizerHandle(Handle):
    """A leased :class:`~.protocols.Recognizer`."""

    async def transcribe(self, pcm: bytes, *, timeout_s: float) -> Transcript:
        """Text of one segment of 16 kHz mono s16le audio, at most 30 s."""
        return cast(Transcript, await self._call("transcribe", pcm, timeout_s=timeout_s))


class LanguageModelHandle(Handle):
    """A leased :class:`~.protocols.LanguageModel`."""

    async def prepare(self, prefix: str, *, timeout_s: float) -> str:
        """Make ``prefix`` ready ahead of time; returns where its state came from."""
        return cast(str, await self._call("prepare", prefix, timeout_s=timeout_s))

    async def generate(self, request: Generation, *, timeout_s: float) -> AsyncGenerator[str | Completion, None]:
        """Pieces of text, then one ``Completion``; ``timeout_s`` bounds the whole."""
        async with aclosing(self._engine.stream("generate", request, timeout_s=timeout_s)) as pieces:
            async for piece in pieces:
                yield piece


class EmbedderHandle(Handle):
    """A leased :class:`~.protocols.Embedder`."""

    async def embed(self, texts: list[str], *, timeout_s: float) -> list[list[float]]:
        """One unit-length vector per text."""
        return cast("list[list[float]]", await self._call("embed", texts, timeout_s=timeout_s))

    async def fit(self, key: str, texts: list[str], labels: list[str], *, timeout_s: float) -> None:
        """Learn ``labels[i]`` from ``texts[i]``; ``key`` is a hexadecimal name of the content."""
        await self._call("fit", key, texts, labels, timeout_s=timeout_s)

    async def classify(self, key: str, texts: list[str], *, timeout_s: float) -> list[list[float]]:
        """Per text the probability of each label, labels in sorted order. Raises ``NotFound`` for an unknown key."""
        return cast("list[list[float]]", await self._call("classify", key, texts, timeout_s=timeout_s))


class SynthesizerHandle(Handle):
    """A leased :class:`~.protocols.Synthesizer`."""

    async def synthesize(self, text: str, language: str, *, timeout_s: float) -> bytes:
        """Audio of the spoken text, 16 kHz mono s16le."""
        return cast(bytes, await self._call("synthesize", text, language, timeout_s=timeout_s))
