"""Making a GGUF file faster on a CPU: its weights requantised to Q4_0, where that helps.

Q4_0 is the form llama.cpp repacks for the CPU's dot products. SmolLM2-135M from Q4_1 to Q4_0 read prompts 2.2 to 2.9
times as fast and wrote 1.7 times as fast (x86_64, 2 threads).
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..core.errors import Failed, InvalidArguments, TimedOut
from .catalogue import LocalSource, ModelEntry, ModelFile
from .gguf import Gguf, read_gguf
from .integrity import Pin, read_in_full
from .own import plain_id
from .progress import Progress, Silent
from .store import Store

_HELPS = {
    **dict.fromkeys(("F32", "F16", "BF16", "Q8_0"), "it shrinks to a third or less, at a small cost in quality"),
    **dict.fromkeys(("Q4_1", "Q5_0", "Q5_1"), "its form is slow on CPUs"),
}
_STALL_S = 600.0  # for one tensor, on a slow card
_END_S = 60.0  # to close the file after the last one
_SUFFIX = re.compile(r"[-._]?(I?Q\d\w*|B?F16|F32)$", re.IGNORECASE)
_ID_SUFFIX = "-q4_0"


def optimise(
    entry: ModelEntry, store: Store, progress: Progress | None = None, *, threads: int = 0
) -> tuple[ModelEntry, bool]:
    """Put ``entry`` into the store again, as Q4_0; its new entry, and whether there was anything to do.

    ``threads`` 0 is one fewer than the cores. Raises ``InvalidArguments`` where it would not help, ``ModelUnavailable``
    where the model is not here, ``Failed`` and ``TimedOut``.
    """
    progress = progress or Silent()
    source = store.files(entry).get("model")
    if entry.engine != "llama_cpp" or source is None:
        raise InvalidArguments(f"{entry.id} is not a GGUF model; only those can be optimised.")
    gguf = read_gguf(source)
    if (reason := _HELPS.get(gguf.form)) is None:
        told = "is in that form already" if gguf.form == "Q4_0" else f"is {gguf.form}, which is as fast or smaller"
        raise InvalidArguments(f"{entry.id} {told}; making it Q4_0 would not help.")
    made_id = plain_id(_SUFFIX.sub("", entry.id)) + _ID_SUFFIX
    sha256 = entry.files[0].sha256
    if not sha256:
        progress.say(f"Reading {source}")
        seen = read_in_full(source)
        sha256 = seen.sha256 if seen else ""
    for made in store.local_entries():
        if made.id == made_id and _made_from(made) == sha256 and store.state(made) == "present":
            return made, False
    draft = _entry(entry, made_id, gguf, sha256, source=source, pin=Pin(sha256="", size=1))
    with store.writing(draft, progress) as scratch:
        store.check_room(draft, _estimate(gguf), "Making")
        progress.say(f"Making {made_id} from {source} ({gguf.form}): {reason}.")
        target = scratch / draft.files[0].filename
        _requantise(source, target, threads or max(1, (os.cpu_count() or 2) - 1), progress, entry.size)
        if len(read_gguf(target).tensors) != len(gguf.tensors):
            raise Failed(f"{made_id} came out incomplete; it was dropped.")
        with target.open("rb") as written:
            os.fsync(written.fileno())
        pin = read_in_full(target)
        assert pin is not None
        made = _entry(entry, made_id, gguf, sha256, source=source, pin=pin)
        store.place(made, {"model": (target, pin)})
    return made, True


def _made_from(made: ModelEntry) -> str:
    return made.source.made_from_sha256 if isinstance(made.source, LocalSource) else ""


def _entry(origin: ModelEntry, made_id: str, gguf: Gguf, sha256: str, *, source: Path, pin: Pin) -> ModelEntry:
    own = isinstance(origin.source, LocalSource) and origin.source.folder
    return ModelEntry(
        id=made_id,
        title=f"{origin.title if not own else source.name}, made Q4_0 here from {gguf.form}",
        role=origin.role,
        engine=origin.engine,
        languages=origin.languages,
        quality=origin.quality + 1,  # the same model, and faster
        licence=origin.licence,
        licence_note=origin.licence_note,
        source=LocalSource(kind="local", made_from=str(source) if own else origin.id, made_from_sha256=sha256),
        files=(
            ModelFile(
                name="model", member=f"{_SUFFIX.sub('', source.stem)}.Q4_0.gguf", size=pin.size, sha256=pin.sha256
            ),
        ),
    )


def _estimate(gguf: Gguf) -> int:
    """Bytes of the result, at most: embeddings and outputs may be kept in eight bits."""
    total = 0
    for tensor in gguf.tensors:
        if tensor.dimensions < 2 or tensor.row % 32:
            total += 4 * tensor.elements
        else:
            bits = 4.5 if tensor.name.startswith("blk.") else 8.5
            total += int(tensor.elements * bits / 8)
    return total + 16_000_000  # the vocabulary


def _requantise(source: Path, target: Path, threads: int, progress: Progress, size: int) -> None:
    command = [sys.executable, "-m", f"{__package__}.requantise", str(source), str(target), str(threads)]
    progress.start(target.name, size)
    try:
        with (target.parent / "log").open("w+b") as log, _process(command, log) as process:
            _follow(process, progress, size)
            if process.returncode:
                log.seek(0)
                raise Failed(f"{target.name} could not be made; {_reason(log.read(), process.returncode)}")
    finally:
        progress.finish()


def _follow(process: subprocess.Popen[bytes], progress: Progress, size: int) -> None:
    assert process.stdout is not None
    tail = b""
    while True:
        if not select.select([process.stdout], [], [], _STALL_S)[0]:
            raise TimedOut(f"llama.cpp did nothing for {_STALL_S:.0f} s; try again when the machine is less busy.")
        if not (chunk := os.read(process.stdout.fileno(), 1 << 14)):
            break
        *lines, tail = (tail + chunk).split(b"\n")
        for line in lines:
            done, total = map(int, line.split())
            progress.update(size * done // max(total, 1))
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        raise TimedOut("llama.cpp did not end; try again when the machine is less busy.") from None


@contextmanager
def _process(command: list[str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _reason(log: bytes, code: int) -> str:
    if code < 0:
        return f"llama.cpp was killed by signal {-code}: perhaps memory ran out."
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    return f"llama.cpp says: {(lines or ['nothing'])[-1][:300]}"
