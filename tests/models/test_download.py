"""Whatever happens to a transfer, it ends in the right file or in none, and the next one goes on from there."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Failed, ModelUnavailable, TimedOut
from famulus.models.catalogue import ModelEntry
from famulus.models.download import Patience
from famulus.models.fetch import Fetcher
from famulus.models.store import Store
from web_rig import HURRIED, Recorder, describe, leftovers

BIG = bytes(range(256)) * 4096
OTHER = BIG[::-1]
OFFSETS = random.Random(20).sample(range(1, len(BIG)), 20)

Make = Callable[..., ModelEntry]


def pull_fails(store: Store, entry: ModelEntry, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        store.pull(entry)
    assert store.state(entry) != "present"


def part_of(store: Store, entry: ModelEntry) -> Path:
    return store.folder(entry) / "model.bin.part"


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_connection_cut_anywhere_is_taken_up_there(
    served: Make, store: Store, web: Any, recorder: Any, offset: int
) -> None:
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [offset]
    assert store.pull(entry, recorder) is True
    assert store.files(entry)["model"].read_bytes() == BIG
    assert leftovers(store, entry) == ["model.bin"]
    assert web.asked[1:] == [("/model.bin", f"bytes={offset}-")]
    assert any(f"ended after {offset} of {len(BIG)} bytes" in said for said in recorder.said)


def test_many_cuts_in_one_pull_are_outlived_while_bytes_come(served: Make, store: Store, web: Any) -> None:
    store = Store(store.root, Fetcher(patience=Patience(backoff_s=0.001, step=1 << 14, tries=2)))
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', sorted(range(40_000, len(BIG), 40_000))
    assert store.pull(entry) is True
    assert len(web.asked) == 1 + len(range(40_000, len(BIG), 40_000))


def test_a_cut_that_never_ends_is_given_up_and_kept_for_the_next_pull(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [5000] * 100
    pull_fails(store, entry, ModelUnavailable, f"ended after 5000 of {len(BIG)} bytes: the connection was cut")
    assert len(web.asked) == HURRIED.tries
    assert part_of(store, entry).stat().st_size == 5000
    web.cuts, web.asked = [], []
    assert store.pull(entry) is True
    assert web.asked == [("/model.bin", "bytes=5000-")]


def test_a_file_that_changed_on_the_server_starts_over(served: Make, store: Store, web: Any, recorder: Any) -> None:
    entry = served(hashes=False, model=OTHER)
    web.tags["model.bin"], web.cuts = '"old"', [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.bodies["model.bin"], web.tags["model.bin"] = BIG, '"new"'
    assert store.pull(entry, recorder) is True
    assert store.files(entry)["model"].read_bytes() == BIG
    assert "Starting toy/model.bin over: the file on the server is another one now, or cannot be had in parts." in (
        recorder.said
    )


def test_a_server_that_overlooks_if_range_is_caught_by_its_tag(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=OTHER)
    web.tags["model.bin"], web.cuts = '"old"', [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.bodies["model.bin"], web.tags["model.bin"] = BIG, '"new"'
    web.dates["model.bin"] = '"old"'  # what If-Range holds fits, whatever is served
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG


def test_without_a_tag_the_hash_tells_that_two_halves_do_not_fit(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.bodies["model.bin"], web.cuts = OTHER, [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.bodies["model.bin"] = BIG
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG


def test_halves_of_two_files_within_one_pull_are_replaced(served: Make, store: Store, web: Any) -> None:
    class Meanwhile(Recorder):
        def say(self, text: str) -> None:
            if "Trying again" in text:
                web.bodies["model.bin"] = BIG

    entry = served(model=BIG)
    web.bodies["model.bin"], web.cuts = b"\1" + BIG[1:], [5000]
    assert store.pull(entry, Meanwhile()) is True
    assert [asked for _, asked in web.asked] == ["", "bytes=5000-", ""]


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_hash_and_strong_tag_nothing_is_resumed(served: Make, store: Store, web: Any, tag: str) -> None:
    entry = served(hashes=False, model=BIG)
    web.tags["model.bin"], web.cuts = tag, [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.asked = []
    assert store.pull(entry) is True
    assert web.asked == [("/model.bin", "")]


def test_a_date_serves_where_there_is_no_tag(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.dates["model.bin"], web.cuts = "Mon, 30 Nov 2026 12:00:00 GMT", [5000]
    assert store.pull(entry) is True
    assert web.asked[1] == ("/model.bin", "bytes=5000-")


def test_a_server_without_ranges_starts_over(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.ranges, web.cuts = False, [700_000]
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG


def test_a_part_that_is_whole_is_not_asked_for_again(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG, second=b"abc")
    web.bodies.pop("second.bin")
    pull_fails(store, entry, ModelUnavailable, "404")
    assert part_of(store, entry).stat().st_size == len(BIG)
    assert not (store.folder(entry) / "model.bin").exists()  # files of a model get their names together
    web.bodies["second.bin"], web.asked = b"abc", []
    assert store.pull(entry) is True
    assert web.requests == ["/second.bin"]
    assert leftovers(store, entry) == ["model.bin", "second.bin"]


def test_a_file_that_shrank_on_the_server_starts_over(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [900_000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.bodies["model.bin"] = BIG[:850_000]  # 416, under the same tag
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG[:850_000]


def test_a_damaged_part_is_noticed_and_replaced(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [600_000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    with part_of(store, entry).open("r+b") as part:
        part.write(b"\xff")
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG


def test_what_was_not_synced_before_a_power_cut_does_not_count(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    with part_of(store, entry).open("ab") as part:
        part.write(bytes(100_000))  # what a file system that grew the file and lost the content leaves
    web.asked = []
    assert store.pull(entry) is True
    assert web.asked == [("/model.bin", "bytes=5000-")]


def test_a_login_page_costs_nothing_that_is_there(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.tags["model.bin"], web.cuts = '"one"', [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    web.bodies["model.bin"], web.types["model.bin"], web.ranges = b"<html>", "text/html", False
    pull_fails(store, entry, ModelUnavailable, "does this network want a login")
    web.bodies["model.bin"], web.types["model.bin"], web.ranges, web.asked = BIG, "", True, []
    assert store.pull(entry) is True
    assert web.asked == [("/model.bin", "bytes=5000-")]


def test_the_part_of_an_older_catalogue_is_dropped(served: Make, store: Store, web: Any) -> None:
    entry = served(model=OTHER)
    web.cuts = [5000] * HURRIED.tries
    pull_fails(store, entry, ModelUnavailable, "ended after")
    newer = served(model=BIG)
    web.asked = []
    assert store.pull(newer) is True
    assert web.asked == [("/model.bin", "")]


def test_wrong_content_never_gets_the_final_name(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.bodies["model.bin"] = b"\1" + BIG[1:]
    pull_fails(store, entry, Failed, r"model\.bin is not what was promised")
    assert leftovers(store, entry) == []


@pytest.mark.parametrize("lengths", [True, False])
def test_too_much_content_is_refused(served: Make, store: Store, web: Any, lengths: bool) -> None:
    entry = served(model=BIG)
    web.bodies["model.bin"], web.lengths = BIG * 2, lengths
    error, told = (ModelUnavailable, f"has {2 * len(BIG)} bytes at") if lengths else (Failed, "longer than")
    pull_fails(store, entry, error, told)
    assert leftovers(store, entry) == []


def test_a_server_that_does_not_tell_the_size_will_do_for_a_known_hash(served: Make, store: Store, web: Any) -> None:
    entry = served(model=BIG)
    web.lengths, web.cuts = False, [5000]
    assert store.pull(entry) is True


def test_a_busy_server_is_asked_again_and_then_named(served: Make, store: Store, web: Any, recorder: Any) -> None:
    entry = served(model=BIG)
    web.statuses, web.retry_after = [429, 503][: HURRIED.first_tries - 1], "1"
    assert store.pull(entry, recorder) is True
    store.files(entry)["model"].unlink()
    web.status = 503
    pull_fails(store, entry, ModelUnavailable, r"model\.bin answered 503")


def test_a_silent_server_times_out(served: Make, tmp_path: Path, web: Any) -> None:
    import threading

    store = Store(tmp_path, Fetcher(patience=Patience(silence_s=0.2, backoff_s=0.01, tries=2)))
    entry = served(model=BIG)
    web.gate = threading.Event()
    pull_fails(store, entry, TimedOut, "sent nothing for 0.2 s")


def test_a_trickle_counts_as_silence(served: Make, tmp_path: Path, web: Any) -> None:
    patience = Patience(backoff_s=0.01, tries=2, stall_s=0, stall_bytes=1 << 30)
    pull_fails(Store(tmp_path, Fetcher(patience=patience)), served(model=BIG), TimedOut, "is too slow")


def test_time_without_progress_has_an_end_too(served: Make, tmp_path: Path, web: Any) -> None:
    patience = Patience(backoff_s=0.01, first_tries=1000, most_tries=1000, give_up_s=0.1)
    web.status = 503
    pull_fails(Store(tmp_path, Fetcher(patience=patience)), served(model=BIG), ModelUnavailable, "answered 503")
    assert 1 < len(web.asked) < 1000


def test_an_unreachable_server_is_named(served: Make, store: Store) -> None:
    entry = served(model=BIG)
    file = entry.files[0].model_copy(update={"url": "http://127.0.0.1:9/model.bin"})
    pull_fails(store, entry.model_copy(update={"files": (file,)}), ModelUnavailable, "cannot be fetched")


def archive_of(form: str, **members: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{form}") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"toy/{name}.bin")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def archive_entry(web: Any, archive: bytes, **files: bytes) -> ModelEntry:
    web.bodies["toy.tar"] = archive
    source = {"kind": "archive", "url": f"{web.url}/toy.tar", "size": len(archive)}
    described = [describe(name, content, member=f"toy/{name}.bin") for name, content in files.items()]
    described[-1]["sha256"] = ""
    facts = {"id": "toy", "title": "A toy", "role": "wake", "engine": "toy", "licence": "MIT", "files": described}
    return ModelEntry.model_validate(facts | {"source": source | {"sha256": hashlib.sha256(archive).hexdigest()}})


@pytest.mark.parametrize("form", ["", "gz", "bz2", "xz"])
def test_named_members_of_an_archive_are_fetched_and_pinned(store: Store, web: Any, form: str) -> None:
    archive = archive_of(form, model=BIG, unwanted=b"x", tokens=b"abc")
    entry = archive_entry(web, archive, model=BIG, tokens=b"abc")
    web.cuts = [len(archive) // 2]
    assert store.pull(entry) is True
    assert store.files(entry)["model"].read_bytes() == BIG
    assert leftovers(store, entry) == ["model.bin", "tokens.bin"]
    assert store.hashes(entry) == "pinned"
    assert store.pull(entry) is False


def test_an_archive_without_the_member_is_refused(store: Store, web: Any) -> None:
    entry = archive_entry(web, archive_of("gz", tokens=b"abc"), model=BIG, tokens=b"abc")
    pull_fails(store, entry, Failed, r"holds no toy/model\.bin")
    assert [name for name in leftovers(store, entry) if not name.startswith("toy.tar")] == []
