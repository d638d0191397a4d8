"""Everything real around the daemon, in one context: bus, microphone, daemon, an app, and a client that watches."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ..client.agent import Agent, connect
from ..core.errors import TimedOut
from ..models.store import default_root
from .daemon import Daemon
from .lamp_app import LampApp
from .microphone import PLAY_S, DeviceMicrophone, FifoMicrophone, Microphone, NoMicrophone, PulseMicrophone
from .private_bus import PrivateBus
from .pulse import missing
from .turn import Moments

AudioKind = Literal["pulse", "fifo", "device", "none"]
_MICROPHONES: dict[AudioKind, Callable[[Path], Microphone]] = {
    "pulse": PulseMicrophone,
    "fifo": FifoMicrophone,
    "device": lambda _: DeviceMicrophone(),
    "none": lambda _: NoMicrophone(),
}
_HEARING_S = 15.0


class Rig:
    """``async with Rig() as rig:`` gives a daemon that is ready, and takes everything down however the block ends.

    ``settings`` (section → key → value) are added to the daemon's. The models are the user's own; home, state and
    sound setup are private. ``report`` is told what is being started.
    """

    daemon: Daemon
    lamp: LampApp
    client: Agent
    moments: Moments

    def __init__(
        self,
        *,
        audio: AudioKind = "pulse",
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        lamp: bool = True,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._audio = audio
        self._settings = dict(settings or {})
        self._with_lamp = lamp
        self._report = report
        self._stack = AsyncExitStack()

    async def play(self, recording: Path, timeout_s: float = PLAY_S) -> None:
        """Let the daemon hear a WAV or FLAC file in real time."""
        await self.microphone.play(recording, timeout_s)

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        directory = await asyncio.to_thread(
            tempfile.TemporaryDirectory, prefix="famulus-rig-", ignore_cleanup_errors=True
        )
        self._stack.push_async_callback(asyncio.to_thread, directory.cleanup)
        root = Path(directory.name)  # short, as the paths of sockets must be
        self._report("a private bus")
        bus = await self._stack.enter_async_context(PrivateBus(root))
        self.microphone = _MICROPHONES[self._audio](root)
        self._report(f"a microphone ({self._audio})")
        self._stack.push_async_callback(self.microphone.stop)
        await self.microphone.start()
        self._report("the daemon")
        self.daemon = Daemon(root, bus.address, await asyncio.to_thread(self._config), self.microphone.env)
        self._stack.push_async_callback(self.daemon.stop)
        await self.daemon.start()
        self.client = await self._stack.enter_async_context(connect(bus.address))
        self.moments = Moments()
        events = await self._stack.enter_async_context(self.client.subscribe())
        watching = asyncio.create_task(self.moments.collect(events))
        self._stack.push_async_callback(_cancel, watching)
        if self._audio != "none":
            await self._wait_until_hearing()
        if self._with_lamp:
            self._report("an app with a lamp")
            self.lamp = LampApp(root, bus.address)
            self._stack.push_async_callback(self.lamp.stop)
            await self.lamp.start()

    def _config(self) -> dict[str, dict[str, Any]]:
        own: dict[str, dict[str, Any]] = {
            "audio": self.microphone.settings,
            "storage": {"models": str(default_root())},
        }
        for section, values in self._settings.items():
            own[section] = {**own.get(section, {}), **values}
        return own

    async def _wait_until_hearing(self) -> None:
        """A device gives its first block some time after it is opened; what is played before is lost."""
        state = ""
        try:
            async with asyncio.timeout(_HEARING_S):
                while state not in ("ok", "deaf"):
                    await asyncio.sleep(0.02)
                    state = (await self.client.properties())["Health"].get("microphone", "")
        except TimeoutError:
            what = f"has its microphone as {state!r} after {_HEARING_S:g} s"
            raise self.daemon.process.failure(what, TimedOut) from None


def add_audio_argument(parser: argparse.ArgumentParser) -> None:
    """``--audio``: PulseAudio where it is installed, as on a board, else a FIFO."""
    default = "fifo" if missing() else "pulse"
    parser.add_argument(
        "--audio", choices=("pulse", "fifo"), default=default, help="the microphone (here: %(default)s)"
    )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
