"""Runs the daemon in an emulator and shows what it does: for script/check-arm64.

Bus, microphone, client and the app with the lamp are this machine's own; only the daemon and its workers are emulated.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from famulus.bench.daemon import Daemon, private_environment
from famulus.bench.ending import until_signal
from famulus.bench.lamp_app import LampApp
from famulus.bench.microphone import FifoMicrophone
from famulus.bench.private_bus import PrivateBus
from famulus.bench.processes import ManagedProcess
from famulus.bench.recordings import load_recordings
from famulus.bench.show import Show
from famulus.bench.turn import Moments, hear, word_error_rate
from famulus.client.agent import Agent, connect
from famulus.core.errors import Failed, FamulusError, TimedOut
from famulus.models.store import default_root

_RECORDINGS = Path(__file__).resolve().parents[1] / "tests" / "data" / "audio"
_PLAYED = ("wake_light_on", "wake_time", "no_wake_chatter")
_UNCOMMON = "it is too dark in the kitchen"  # no sentence of a command: the sentence encoder finds what is meant
# Wide, since emulation is slow: they only bound a daemon that hangs.
_READY_S = 120.0
_HEARING_S = 60.0
_TURN_S = 180.0
_ASK_S = 120.0
_STOP_S = 30.0

_Config = Mapping[str, Mapping[str, Any]]
_CONFIG: _Config = {
    "embedder": {"timeout_s": _ASK_S},
    "llm": {"model": ""},
    "storage": {"models": str(default_root())},
}


class EmulatedDaemon(Daemon):
    """The daemon and its workers under ``python``, which finds famulus in ``site`` and sees the processor ``cpu``."""

    def __init__(
        self,
        directory: Path,
        bus_address: str,
        config: _Config,
        *,
        python: Path,
        site: Path,
        cpu: str,
    ) -> None:
        super().__init__(directory, bus_address, config, {})
        self.process = ManagedProcess(
            "the emulated famulusd",
            [str(python), "-P", "-m", "famulus.daemon", "--config", str(self.config_file)],
            env={**private_environment(directory), "PYTHONPATH": str(site), "QEMU_CPU": cpu},
            cwd=directory,
        )


async def _main(args: argparse.Namespace, show: Show) -> None:
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(PrivateBus(args.directory))
        lamp = LampApp(args.directory, bus.address)
        stack.push_async_callback(lamp.stop)
        await _learn(show, args.directory, bus.address, lamp)

        microphone = FifoMicrophone(args.directory)
        stack.push_async_callback(microphone.stop)
        await microphone.start()
        hearing: _Config = {"audio": microphone.settings, "asr": {"timeout_s": _ASK_S}}
        async with _emulated(args, show, bus.address, hearing) as client:
            await _ask(show, client, "what time is it", "clock.time", by="sentences")
            await _ask(show, client, "turn off the lamp", "light.off", by="sentences")
            await _listen(show, client, microphone, lamp)
            await _ask(show, client, _UNCOMMON, "light.on", by="semantic")


@asynccontextmanager
async def _emulated(args: argparse.Namespace, show: Show, bus_address: str, changes: _Config) -> AsyncIterator[Agent]:
    """A client of an emulated daemon that is ready. Raises ``Failed`` where it does not end as it should."""
    daemon = EmulatedDaemon(
        args.directory, bus_address, {**_CONFIG, **changes}, python=args.python, site=args.site, cpu=args.cpu
    )
    try:
        show.step(f"starting the daemon, emulated (at most {_READY_S:g} s)")
        await daemon.start(_READY_S)
        async with connect(bus_address) as client:
            await _until_ready(client)
            show.step(f"ready: it was on the bus after {daemon.ready_s:.1f} s")
            yield client
        began = time.monotonic()
        code = await daemon.stop(_STOP_S)
        if code != 0:
            raise Failed(f"SIGTERM ended the daemon with code {code}, not 0.")
        show.step(f"SIGTERM ended it with code 0 after {time.monotonic() - began:.1f} s")
    except FamulusError:
        show.log(daemon.process.tail(40))
        raise
    finally:
        await daemon.stop()


async def _learn(show: Show, directory: Path, bus_address: str, lamp: LampApp) -> None:
    """Have this machine's daemon learn the examples of all commands, which would take minutes in the emulator."""
    show.step("learning the examples of all commands, not emulated")
    daemon = Daemon(directory, bus_address, {**_CONFIG, "audio": {"source": "none"}}, {})
    try:
        await daemon.start()
        await lamp.start()
        async with connect(bus_address) as client:
            await _ask(show, client, _UNCOMMON, "light.on", by="semantic")
    finally:
        await daemon.stop()


async def _until_ready(client: Agent) -> None:
    """It hears its microphone, and the app has come over to it. Raises ``TimedOut``."""
    ear, has_lamp = "", False
    try:
        async with asyncio.timeout(_HEARING_S):
            while ear != "ok" or not has_lamp:
                await asyncio.sleep(0.1)
                ear = (await client.properties())["Health"].get("microphone", "")
                has_lamp = bool(await client.capabilities("lamp"))
    except TimeoutError:
        what = f"its microphone is {ear!r}, and the lamp is {'there' if has_lamp else 'missing'}"
        raise TimedOut(f"The daemon is not ready after {_HEARING_S:g} s: {what}.") from None


async def _ask(show: Show, client: Agent, text: str, method: str, *, by: str) -> None:
    """A typed sentence from this machine's client. Raises ``Failed`` where another command comes of it."""
    show.step(f"asking {text!r} (at most {_ASK_S:g} s)")
    began = time.monotonic()
    reply = await client.ask(text, timeout_s=_ASK_S)
    methods = [call["method"] for call in reply.calls]
    if not reply.ok or methods != [method] or reply.decided_by != by:
        raise Failed(f"{text!r} became {methods} by {reply.decided_by or 'nothing'}, {reply.status}: {reply.text}")
    show.say(f"     {method} by {by} after {time.monotonic() - began:.1f} s: {reply.text!r}")


async def _listen(show: Show, client: Agent, microphone: FifoMicrophone, lamp: LampApp) -> None:
    """Recordings through the daemon's ears. Raises ``Failed`` at the first that goes wrong."""
    moments = Moments()
    moments.on_event = show.event
    async with client.subscribe() as events:
        watching = asyncio.create_task(moments.collect(events))
        try:
            for recording in await asyncio.to_thread(load_recordings, _RECORDINGS, _PLAYED):
                show.recording(f"at most {_TURN_S:g} s:", recording)
                before = len(lamp.changes)
                turn = await hear(recording, microphone.play, moments, timeout_s=_TURN_S)
                show.verdict(turn)
                if problem := turn.problem():
                    raise Failed(f"{recording.name}: {problem}.")
                if recording.wake and word_error_rate(recording.text, turn.transcript or ""):
                    raise Failed(f"{recording.name} was heard as {turn.transcript!r}.")
                if recording.name == "wake_light_on" and not await lamp.changes_since(before, 1):
                    raise Failed("The lamp in the other process did not change.")
        finally:
            watching.cancel()
            await asyncio.wait([watching])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--python", type=Path, required=True, help="the emulated interpreter")
    parser.add_argument("--site", type=Path, required=True, help="the folder that famulus and its wheels are in")
    parser.add_argument("--cpu", required=True, help="the processor to emulate, as QEMU names it")
    parser.add_argument("--directory", type=Path, required=True, help="an empty folder with a short path")
    args = parser.parse_args()
    show = Show(sys.stdout)
    try:
        asyncio.run(until_signal(_main(args, show)))
    except FamulusError as error:
        show.problem(error.message)
        return 1
    except asyncio.CancelledError:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
