"""Files whose hash the catalogue does not tell: pinned at the first pull, held to it from then on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from famulus.core.errors import Failed, ModelUnavailable
from famulus.models.catalogue import ModelEntry
from famulus.models.store import Store
from web_rig import leftovers

BIG = bytes(range(256)) * 4096

Make = Callable[..., ModelEntry]


def test_the_first_pull_pins_and_says_so(served: Make, store: Store, recorder: Any) -> None:
    entry = served(hashes=False, model=BIG)
    assert store.hashes(entry) == "unknown"
    assert store.pull(entry, recorder) is True
    assert store.hashes(entry) == "pinned"
    pins = json.loads((store.folder(entry) / ".pins.json").read_text())
    assert pins["model"]["size"] == len(BIG)
    assert any("its hash was not known; pinned " + pins["model"]["sha256"] in said for said in recorder.said)


def test_a_pinned_file_is_verified_like_any_other(served: Make, store: Store) -> None:
    entry = served(hashes=False, model=BIG)
    store.pull(entry)
    path = store.files(entry)["model"]
    path.write_bytes(b"\1" + BIG[1:])
    assert store.verify(entry) == {"model": "damaged"}
    assert store.state(entry) == "damaged"
    assert store.pull(entry) is True
    assert path.read_bytes() == BIG


def test_another_content_on_the_server_is_refused_until_it_is_pinned_anew(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    store.pull(entry)
    store.files(entry)["model"].unlink()
    web.bodies["model.bin"] = BIG[::-1]
    with pytest.raises(Failed, match="is not what was promised"):
        store.pull(entry)
    assert store.state(entry) == "missing"
    assert store.pull(entry, repin=True) is True
    assert store.files(entry)["model"].read_bytes() == BIG[::-1]
    assert store.verify(entry) == {"model": "present"}


def test_pinning_anew_that_fails_leaves_file_and_pin(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    store.pull(entry)
    web.status = 404
    with pytest.raises(ModelUnavailable):
        store.pull(entry, repin=True)
    assert store.verify(entry) == {"model": "present"}
    assert store.hashes(entry) == "pinned"


def test_a_file_copied_by_hand_is_pinned_as_it_is(served: Make, store: Store, web: Any, recorder: Any) -> None:
    entry = served(hashes=False, model=BIG)
    store.folder(entry).mkdir(parents=True)
    (store.folder(entry) / "model.bin").write_bytes(b"mine")
    assert store.state(entry) == "present"
    assert store.pull(entry, recorder) is False
    assert store.hashes(entry) == "pinned"
    assert web.asked == []
    assert recorder.said == ["toy: pinned model as found here."]


def test_a_login_page_is_not_taken_for_the_model(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.types["model.bin"] = "text/html; charset=utf-8"
    with pytest.raises(ModelUnavailable, match="does this network want a login"):
        store.pull(entry)
    assert leftovers(store, entry) == []


def test_a_size_far_from_the_catalogues_is_not_taken_for_the_model(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.bodies["model.bin"] = b"version https://git-lfs"
    with pytest.raises(ModelUnavailable, match=r"has 23 B at .* and about 1\.0 MB"):
        store.pull(entry)
    assert store.state(entry) == "missing"


def test_an_approximate_size_is_enough(served: Make, store: Store, web: Any) -> None:
    entry = served(hashes=False, model=BIG)
    web.bodies["model.bin"] = BIG[: len(BIG) * 9 // 10]
    assert store.pull(entry) is True
    assert store.state(entry) == "present"


def test_unreadable_pins_do_not_pass_for_none(served: Make, store: Store) -> None:
    entry = served(hashes=False, model=BIG)
    store.pull(entry)
    (store.folder(entry) / ".pins.json").write_text("{")
    with pytest.raises(Failed, match="which holds hashes, cannot be read"):
        store.pull(entry)
