"""Pulls on a full disk, beside a daemon that has the old file open, and killed at any moment."""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Failed
from famulus.models.catalogue import ModelEntry
from famulus.models.fetch import Fetcher
from famulus.models.store import Store
from web_rig import HURRIED, leftovers

BIG = random.Random(5).randbytes(3_000_000)

Make = Callable[..., ModelEntry]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, timeout=10, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], timeout=10, check=True)


def test_a_disk_that_fills_up_ends_the_pull_and_gets_its_room_back(
    served: Make, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "check_room", lambda *_: None)  # as if something else had filled it meanwhile
    store, entry = Store(tiny_disk, Fetcher(patience=HURRIED)), served(model=BIG)
    with pytest.raises(Failed, match=r"cannot be stored .*No space left on device"):
        store.pull(entry)
    assert leftovers(store, entry) == []
    assert os.statvfs(tiny_disk).f_bavail * os.statvfs(tiny_disk).f_frsize > 1_900_000


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(served: Make, tiny_disk: Path, web: Any) -> None:
    entry = served(model=BIG)
    with pytest.raises(Failed, match=r"Fetching toy needs 35\.0 MB free"):
        Store(tiny_disk, Fetcher(patience=HURRIED)).pull(entry)
    assert web.asked == []


def test_a_model_that_is_loaded_keeps_its_old_file(served: Make, store: Store) -> None:
    store.pull(old := served(model=BIG))
    path = store.files(old)["model"]
    with path.open("rb") as loaded, mmap.mmap(loaded.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        newer = served(model=BIG[::-1])
        assert store.state(newer) == "damaged"
        assert store.pull(newer) is True
        assert mapped[:] == BIG
        assert path.read_bytes() == BIG[::-1]
        assert loaded.read() == BIG


PULL = """
import sys
from pathlib import Path
from famulus.models.catalogue import ModelEntry
from famulus.models.download import Patience
from famulus.models.fetch import Fetcher
from famulus.models.store import Store
print("go", flush=True)
fetcher = Fetcher(patience=Patience(sync_bytes=1 << 16))
Store(Path(sys.argv[1]), fetcher).pull(ModelEntry.model_validate_json(sys.argv[2]))
"""


def start_pull(store: Store, entry: ModelEntry) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PULL, str(store.root), entry.model_dump_json()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    return process


def test_a_puller_killed_at_random_moments_never_leaves_a_wrong_file(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.tags["model.bin"] = '"one"'
    moments = random.Random(7)
    for _ in range(6):
        with start_pull(store, entry) as process:
            time.sleep(moments.uniform(0, 0.06))
            process.send_signal(signal.SIGKILL)
        final = store.folder(entry) / "model.bin"
        if final.exists():
            assert final.read_bytes() == BIG
    store.pull(entry, wait_s=5)
    assert store.files(entry)["model"].read_bytes() == BIG
    assert store.verify(entry) == {"model": "present"}
    assert leftovers(store, entry) == ["model.bin"]


def test_the_second_process_takes_over_from_one_that_is_killed(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.gate, web.tags["model.bin"] = threading.Event(), '"one"'
    with start_pull(store, entry) as first:
        assert web.half_sent.wait(20)
        second = threading.Thread(target=store.pull, args=(entry,), kwargs={"wait_s": 20})
        second.start()
        time.sleep(0.3)
        web.gate.set()
        web.gate = None
        first.kill()
    second.join(20)
    assert not second.is_alive()
    assert store.files(entry)["model"].read_bytes() == BIG
    assert leftovers(store, entry) == ["model.bin"]
