"""What the daemon hears: a sound server's microphone, a FIFO, or nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..core.errors import Failed, NotFound, TimedOut
from .fifo import PacedFifo
from .pulse import PrivatePulse, missing
from .recordings import read_pcm

_T = TypeVar("_T")
PLAY_S = 60.0


class Microphone(Protocol):
    """``settings`` are the daemon's ``[audio]`` section, ``env`` what it must see in its environment."""

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def env(self) -> dict[str, str]: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        """Let a WAV or FLAC file be heard in real time; returns when it was."""


class PulseMicrophone:
    """The real path of a board: PortAudio, ALSA, PulseAudio."""

    settings: dict[str, Any] = {"source": "microphone"}  # noqa: RUF012 - read only, as the protocol says

    def __init__(self, directory: Path) -> None:
        self.pulse = PrivatePulse(directory)

    @property
    def env(self) -> dict[str, str]:
        return self.pulse.env

    async def start(self) -> None:
        if reason := missing():
            raise NotFound(f"A private PulseAudio {reason}; or use the FIFO.")
        await to_the_end(self.pulse.start)

    async def stop(self) -> None:
        await to_the_end(self.pulse.stop)

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        player = await to_the_end(lambda: self.pulse.play_in_background(recording))
        try:
            code = await asyncio.to_thread(player.wait, timeout_s)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{recording} was not played within {timeout_s:g} s.") from None
        finally:
            if player.poll() is None:
                player.kill()
                await asyncio.to_thread(player.wait)
        if code != 0:
            raise Failed(f"paplay ended with code {code} for {recording}.")


class FifoMicrophone:
    """Without a sound server: the daemon's file source reads a FIFO at the pace of a microphone."""

    env: dict[str, str] = {}  # noqa: RUF012 - read only, as the protocol says

    def __init__(self, directory: Path) -> None:
        self._fifo = PacedFifo(directory / "microphone")

    @property
    def settings(self) -> dict[str, Any]:
        return {"source": "file", "file": str(self._fifo.path)}

    async def start(self) -> None:
        await self._fifo.start()

    async def stop(self) -> None:
        await self._fifo.stop()

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        await self._fifo.play_pcm(await asyncio.to_thread(read_pcm, recording), timeout_s)


class DeviceMicrophone:
    """The machine's own microphone, which nothing can be played into.

    The daemon's home and runtime directory are private, so it is told where the user's sound server is.
    """

    settings: dict[str, Any] = {"source": "microphone"}  # noqa: RUF012 - read only, as the protocol says

    def __init__(self) -> None:
        runtime = os.environ.get("XDG_RUNTIME_DIR", "")
        names = ("PULSE_SERVER", "PULSE_COOKIE", "ALSA_CONFIG_PATH")
        self.env = {name: os.environ[name] for name in names if name in os.environ}
        if runtime:
            self.env.setdefault("PULSE_SERVER", f"unix:{runtime}/pulse/native")
            self.env["PIPEWIRE_RUNTIME_DIR"] = runtime

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        raise Failed(f"{recording} cannot be played into a real microphone.")


class NoMicrophone:
    """A daemon that only reads."""

    settings: dict[str, Any] = {"source": "none"}  # noqa: RUF012 - read only, as the protocol says
    env: dict[str, str] = {}  # noqa: RUF012 - read only, as the protocol says

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        raise Failed(f"There is no microphone to play {recording} into.")


async def to_the_end(work: Callable[[], _T]) -> _T:
    """Run ``work`` in a thread; a cancelled caller waits until it is over, so that what it started can be ended."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
