"""Prefix states on disk: what is not whole never comes back, and the folder stays within its size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from famulus.engines.llama_state import StateStore, state_key

_KEY, _OTHER = state_key(["a", 1]), state_key(["a", 2])


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_a_state_comes_back_as_it_was_to_another_store_too(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    assert StateStore(tmp_path / "new" / "deep", 1_000_000).save(_KEY, content)
    store = StateStore(tmp_path / "new" / "deep", 1_000_000)
    assert store.load(_KEY) == content
    assert store.load(_OTHER) is None
    assert only_file(tmp_path / "new" / "deep").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("size", [0, 10, 47, 48, 49, 500])
def test_a_truncated_file_is_ignored_and_removed(tmp_path: Path, size: int) -> None:
    store = StateStore(tmp_path, 1_000_000)
    store.save(_KEY, bytes(1000))
    os.truncate(only_file(tmp_path), size)
    assert store.load(_KEY) is None
    assert list(tmp_path.iterdir()) == []


def test_one_changed_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 1_000_000)
    for at in (0, 20, 60, -1):
        store.save(_KEY, bytes(1000))
        data = bytearray(only_file(tmp_path).read_bytes())
        data[at] ^= 1
        only_file(tmp_path).write_bytes(data)
        assert store.load(_KEY) is None


def test_a_file_renamed_to_another_key_is_refused(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 1_000_000)
    store.save(_KEY, bytes(1000))
    mine = only_file(tmp_path)
    store.save(_OTHER, bytes(1000))
    other = next(path for path in tmp_path.iterdir() if path != mine)
    mine.replace(other)
    assert store.load(_OTHER) is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 3500)
    keys = [state_key([number]) for number in range(4)]
    for age, key in enumerate(keys[:3]):
        store.save(key, bytes([age]) * 1000)
        newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (1000 + age, 1000 + age))
    assert store.load(keys[0]) is not None  # now the most recent
    store.save(keys[3], bytes(1000))
    assert [store.load(key) is not None for key in keys] == [True, False, True, True]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3500


def test_saving_a_key_again_does_not_push_out_others(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 2500)
    store.save(_OTHER, bytes(1000))
    store.save(_KEY, bytes(1000))
    store.save(_KEY, bytes(1000))
    assert store.load(_OTHER) is not None


def test_a_state_over_the_limit_is_not_kept_and_pushes_nothing_out(tmp_path: Path) -> None:
    store = StateStore(tmp_path, 2000)
    store.save(_KEY, bytes(1000))
    assert not store.save(_OTHER, bytes(5000))
    assert store.load(_KEY) is not None


def test_what_a_dead_writer_left_is_swept(tmp_path: Path) -> None:
    old, new = tmp_path / "x.1.tmp", tmp_path / "y.2.tmp"
    old.write_bytes(b"x")
    new.write_bytes(b"y")
    os.utime(old, (1000, 1000))
    StateStore(tmp_path, 2000).save(_KEY, b"1")
    assert not old.exists()
    assert new.exists()


def test_a_folder_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = StateStore(blocked, 2000)
    assert not store.save(_KEY, b"1")
    assert store.load(_KEY) is None
    store.remove(_KEY)
