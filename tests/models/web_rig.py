"""A loopback HTTP server that can misbehave, and what the tests of pulls share."""

from __future__ import annotations

import hashlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from famulus.models.catalogue import ModelEntry
from famulus.models.download import Patience
from famulus.models.store import Store

HURRIED = Patience(
    silence_s=5, backoff_s=0.01, longest_backoff_s=0.05, tries=4, first_tries=2, most_tries=60, sync_bytes=1 << 14
)


@dataclass
class Web:
    """What the server serves, and how it misbehaves.

    ``cuts`` are offsets in the file at which one response each ends, in turn; ``statuses`` refuse one request each;
    ``gate`` holds a body half way. ``tags`` are sent as ETag by path. Requests are kept as (path, Range or "").
    """

    url: str = ""
    bodies: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    dates: dict[str, str] = field(default_factory=dict)
    leads: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    status: int = 200
    statuses: list[int] = field(default_factory=list)
    retry_after: str = ""
    ranges: bool = True
    lengths: bool = True
    cuts: list[int] = field(default_factory=list)
    gate: threading.Event | None = None
    half_sent: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def requests(self) -> list[str]:
        return [path for path, _ in self.asked]


def handler_for(web: Web) -> type[BaseHTTPRequestHandler]:
    """A request handler that serves ``web``; as a proxy, too, where it gets a whole address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append((self.path, self.headers.get("Range", "")))
            name = urlsplit(self.path).path.lstrip("/")
            body = web.bodies.get(name)
            if name in web.leads:
                self.send_response(302)
                self.send_header("Location", web.leads[name])
                self.end_headers()
                return
            status = web.statuses.pop(0) if web.statuses else web.status
            if body is None or status != 200:
                self.send_response(404 if body is None else status)
                if web.retry_after:
                    self.send_header("Retry-After", web.retry_after)
                self.end_headers()
                return
            start = self._start(name, len(body))
            if start is not None and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self._head(name, start, len(body))
            self._body(body, start or 0)

        def _start(self, name: str, size: int) -> int | None:
            asked, only_if = self.headers.get("Range", ""), self.headers.get("If-Range", "")
            fits = only_if in ("", web.tags.get(name), web.dates.get(name))
            return int(asked.removeprefix("bytes=").rstrip("-")) if asked and web.ranges and fits else None

        def _head(self, name: str, start: int | None, size: int) -> None:
            self.send_response(200 if start is None else 206)
            if start is not None:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            sent = {"ETag": web.tags, "Last-Modified": web.dates, "Content-Type": web.types}
            for header, values in sent.items():
                if name in values:
                    self.send_header(header, values[name])
            if web.lengths:
                self.send_header("Content-Length", str(size - (start or 0)))
            self.end_headers()

        def _body(self, body: bytes, start: int) -> None:
            end = web.cuts.pop(0) if web.cuts else len(body)
            half = max(start, len(body) // 2)
            self.wfile.write(body[start : min(half, end)])
            self.wfile.flush()
            web.half_sent.set()
            if web.gate is not None:
                web.gate.wait(30)
            self.wfile.write(body[half:end])

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def serving(web: Web, tls: ssl.SSLContext | None = None) -> Iterator[Web]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(web))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # (a client that goes away is part of the game)
    web.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield web
    finally:
        if web.gate is not None:
            web.gate.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def leftovers(store: Store, entry: ModelEntry) -> list[str]:
    """The files in the folder of a model, but for the store's own."""
    own = (".lock", ".record.json", ".pins.json", ".entry.json")
    return sorted(path.name for path in store.folder(entry).iterdir() if path.name not in own)


def until(happened: Callable[[], bool], wait_s: float = 20) -> None:
    """Wait for another process."""
    deadline = time.monotonic() + wait_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def describe(name: str, content: bytes, **where: str) -> dict[str, object]:
    return {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest(), **where}


@dataclass
class Recorder:
    """A progress that remembers."""

    said: list[str] = field(default_factory=list)
    tasks: list[tuple[str, int]] = field(default_factory=list)
    last: int = 0
    finished: int = 0

    def say(self, text: str) -> None:
        self.said.append(text)

    def start(self, label: str, total: int, done: int = 0) -> None:
        self.tasks.append((label, total))

    def update(self, done: int) -> None:
        self.last = done

    def finish(self) -> None:
        self.finished += 1
