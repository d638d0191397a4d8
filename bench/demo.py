"""``python -m famulus.bench.demo``: the whole of famulus at work, with or without a microphone.

It starts a private bus, the daemon and an app with a lamp. With a microphone you speak; without one, recordings are
played through the daemon's ears and each is checked. Typed sentences are taken until Ctrl-D.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import FamulusError, ModelUnavailable
from .ending import until_signal
from .recordings import Recording, load_recordings
from .rig import AudioKind, Rig
from .show import Show
from .turn import hear

_BUNDLED = Path(__file__).resolve().parents[1] / "tests" / "data" / "audio"
_PROBE_S = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m famulus.bench.demo", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument(
        "--recordings",
        type=Path,
        metavar="DIR",
        help="play these, also where there is a microphone (see the bundled ones)",
    )
    args = parser.parse_args(argv)
    show = Show(sys.stdout)
    try:
        return asyncio.run(until_signal(_demo(show, args.recordings)))
    except FamulusError as error:
        show.end(False, error.message)
    except (KeyboardInterrupt, asyncio.CancelledError):
        show.end(False, "Stopped before the end.")
        return 130
    return 1


async def _demo(show: Show, folder: Path | None) -> int:
    show.title("famulus: a private voice and text agent")
    await asyncio.to_thread(_check_models)
    audio: AudioKind = "fifo"
    if folder is None and await asyncio.to_thread(_has_microphone):
        audio = "device"
    recordings = await asyncio.to_thread(load_recordings, folder or _BUNDLED) if audio == "fifo" else ()
    begin = time.monotonic()
    async with Rig(audio=audio, report=lambda part: show.step(f"starting {part}")) as rig:
        rig.moments.on_event = show.event
        show.step(f"ready after {time.monotonic() - begin:.1f} s, the daemon itself after {rig.daemon.ready_s:.1f} s")
        try:
            wrong = await _play(show, rig, recordings)
            await _typed(show, rig, spoken=audio == "device")
        except FamulusError:
            show.log(rig.daemon.process.tail())
            raise
        if wrong:
            show.log(rig.daemon.process.tail())
            show.end(False, f"{len(wrong)} of {len(recordings)} recordings went wrong: {', '.join(wrong)}.")
            return 1
    done = (
        f"{len(recordings)} of {len(recordings)} recordings gave the right outcome."
        if recordings
        else "The daemon ran and has ended."
    )
    show.end(True, done)
    return 0


async def _play(show: Show, rig: Rig, recordings: tuple[Recording, ...]) -> list[str]:
    """Names of the recordings that went wrong."""
    if recordings:
        show.say("No microphone is used: recordings are played to the daemon as a microphone would hear them.")
        show.say("The speech model loads with the first sentence, so the first one takes longer.")
    wrong = []
    for number, recording in enumerate(recordings, 1):
        show.recording(f"{number}/{len(recordings)}", recording)
        turn = await hear(recording, rig.play, rig.moments)
        show.verdict(turn)
        if turn.problem() is not None:
            wrong.append(recording.name)
    return wrong


async def _typed(show: Show, rig: Rig, *, spoken: bool) -> None:
    if spoken:
        show.say('Say "hey jarvis, turn on the kitchen light", or type a sentence; Ctrl-D ends.')
    else:
        show.say('Type a sentence, such as "turn off the lamp"; Ctrl-D ends.')
    lines = _lines_of_stdin()
    while True:
        show.prompt()
        line = await lines.get()
        if line is None:
            return
        if text := line.strip():
            try:
                seen = rig.moments.count("finished")
                await rig.client.ask(text)  # show.event shows how it ends
                await rig.moments.until(lambda: rig.moments.count("finished") > seen, 1.0)  # noqa: B023 - awaited here
            except FamulusError as error:
                show.problem(error.message)


def _lines_of_stdin() -> asyncio.Queue[str | None]:
    """Lines as they come, then None.

    A thread reads the bare descriptor: regular files and /dev/null cannot be watched by a loop, and a thread inside
    ``sys.stdin`` would hold its lock while the interpreter ends.
    """
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        rest = b""
        try:
            while chunk := os.read(0, 4096):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode("utf-8", "replace"))
            if rest:
                loop.call_soon_threadsafe(lines.put_nowait, rest.decode("utf-8", "replace"))
        except OSError:
            pass  # no standard input at all
        finally:
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return lines


def _check_models() -> None:
    from ..models.catalogue import Catalogue
    from ..models.store import Store, default_root

    store = Store(default_root())
    missing = [entry.id for entry in Catalogue.load().entries if entry.default and store.state(entry) != "present"]
    if missing:
        raise ModelUnavailable(
            f"The models {', '.join(missing)} are not in {store.root}; run script/setup, which fetches them."
        )


def _has_microphone() -> bool:
    """Whether PortAudio finds an input device; asked of another process, since sound libraries may hang or print."""
    code = "import pyaudio; pyaudio.PyAudio().get_default_input_device_info()"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=_PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
