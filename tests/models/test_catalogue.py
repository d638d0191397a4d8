from __future__ import annotations

from pathlib import Path

import pytest
from famulus.core.errors import InvalidArguments, NotFound
from famulus.models.catalogue import Catalogue


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


ENTRY = """
[[models]]
id = "toy"
title = "A toy"
role = "llm"
engine = "toy"
licence = "MIT"
source = { kind = "url" }
files = [{ name = "model", url = "https://example.org/a/toy%20model.gguf?download=true", size = 3, sha256 = "HASH" }]
""".replace("HASH", "a" * 64)


def test_the_bundled_catalogue_names_every_embedded_model() -> None:
    catalogue = Catalogue.load()
    by_id = {entry.id: entry for entry in catalogue.entries}
    assert {"micro", "openwakeword", "silero-vad", "moonshine-tiny-en", "smollm2-135m"} <= set(by_id)
    assert [entry.id for entry in catalogue.defaults] == ["moonshine-tiny-en", "smollm2-135m", "use"]
    assert {file.name for file in by_id["moonshine-tiny-en"].files} == {"encoder", "decoder", "tokenizer"}
    assert {"melspectrogram", "embedding", "hey_jarvis"} <= {file.name for file in by_id["openwakeword"].files}


def test_models_for_non_commercial_use_say_so() -> None:
    entry = Catalogue.load().entry("openwakeword")
    assert entry.licence == "CC-BY-NC-SA-4.0"
    assert "non-commercial" in entry.licence_note


def test_an_unknown_id_suggests_a_close_one() -> None:
    with pytest.raises(NotFound, match="did you mean 'smollm2-135m'"):
        Catalogue.load().entry("smollm-135m")


def test_an_id_like_no_other_lists_them_all() -> None:
    with pytest.raises(NotFound, match="the catalogue has micro, "):
        Catalogue.load().entry("zzzzzzzz")


def test_another_catalogue_can_be_read(tmp_path: Path) -> None:
    (entry,) = Catalogue.load(write(tmp_path / "own.toml", ENTRY)).entries
    assert entry.files[0].filename == "toy model.gguf"
    assert entry.size == 3


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('role = "llm"', 'role = "chef"', "role"),
        ("size = 3", "size = 0", "size"),
        ("aaaa", "AAAA", "sha256"),
        ("https://example.org/", "file:///etc/", "url"),
        (
            'url = "https://example.org/a/toy%20model.gguf?download=true"',
            'member = "a/b"',
            "needs `url` for a url source, `member` for",
        ),
        ("toy%20model.gguf", "..%2f.%2e", "no usable file name"),
        ("toy%20model.gguf", ".record.json", "no usable file name"),
        ('id = "toy"', 'id = "../toy"', "id"),
        ('title = "A toy"', 'title = "A toy"\ncolour = "red"', "colour"),
        ('{ kind = "url" }', '{ kind = "package", package = "a", module = "a" }', "package source lists no files"),
    ],
)
def test_a_fault_in_a_catalogue_is_named(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = write(tmp_path / "own.toml", ENTRY.replace(old, new))
    with pytest.raises(InvalidArguments, match=told) as raised:
        Catalogue.load(path)
    assert str(path) in raised.value.message


def test_all_faults_are_listed_at_once(tmp_path: Path) -> None:
    path = write(tmp_path / "own.toml", ENTRY.replace('"llm"', '"chef"').replace("size = 3", "size = -3"))
    with pytest.raises(InvalidArguments, match=r"role.*size"):
        Catalogue.load(path)


def test_two_models_cannot_share_an_id(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="two models have the id 'toy'"):
        Catalogue.load(write(tmp_path / "own.toml", ENTRY + ENTRY))


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="not valid TOML"):
        Catalogue.load(write(tmp_path / "own.toml", "models = ["))


def test_a_missing_catalogue_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        Catalogue.load(tmp_path / "none.toml")
