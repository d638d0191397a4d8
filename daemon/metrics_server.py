"""A socket of this machine on which ``GET /metrics`` is answered, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from ..core.errors import Failed
from .metrics import CONTENT_TYPE

_LOG = logging.getLogger(__name__)

_REQUEST_BYTES = 8192
_DEADLINE_S = 5.0
_CONNECTIONS = 16
_STOP_S = 1.0
_UNIX = "unix:"


class MetricsServer:
    """Answers with what ``render`` gives. ``listen`` is as in the settings: ``unix:/path`` or a loopback address.

    A connection gets one answer, has five seconds, and is refused while sixteen others are open.
    """

    def __init__(self, listen: str, render: Callable[[], str], *, deadline_s: float = _DEADLINE_S) -> None:
        self._listen = listen
        self._render = render
        self._deadline_s = deadline_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The TCP port that is listened on; 0 for none."""
        names = [sock.getsockname() for sock in self._server.sockets] if self._server else []
        return next((int(name[1]) for name in names if isinstance(name, tuple)), 0)

    async def start(self) -> None:
        """Raises ``Failed`` where the address cannot be taken."""
        try:
            if self._listen.startswith(_UNIX):
                bound = await asyncio.to_thread(_bind, self._path)
                self._server = await asyncio.start_unix_server(self._on_connection, sock=bound, limit=_REQUEST_BYTES)
            else:
                host, _, port = self._listen.rpartition(":")
                self._server = await asyncio.start_server(
                    self._on_connection, host.strip("[]"), int(port), limit=_REQUEST_BYTES
                )
        except OSError as error:
            reason = error.strerror or str(error)
            raise Failed(f"Metrics cannot be served on {self._listen} ({reason}); change metrics.listen.") from error
        _LOG.info("metrics are served on %s", self._listen)

    async def stop(self) -> None:
        """End all connections and free the address, within a second."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=_STOP_S)
        if self._listen.startswith(_UNIX):
            await asyncio.to_thread(self._path.unlink, missing_ok=True)

    @property
    def _path(self) -> Path:
        return Path(self._listen.removeprefix(_UNIX))

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._connections) < _CONNECTIONS:
                self._connections.add(task)
                async with asyncio.timeout(self._deadline_s):
                    writer.write(await self._answer(reader))
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        except (TimeoutError, OSError):
            pass  # a client that is slow or gone is no concern of ours
        except Exception:
            _LOG.exception("Metrics could not be given.")
        finally:
            self._connections.discard(task)
            writer.transport.abort()  # also where closing waits for a client that does not read

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response("431 Request Header Fields Too Large", "The request is too long.\n")
        except asyncio.IncompleteReadError:
            return _response("400 Bad Request", "This is not an HTTP request.\n")
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        target, _, protocol = rest.partition(b" ")
        if not protocol.startswith(b"HTTP/1."):
            return _response("400 Bad Request", "This is not an HTTP/1 request.\n")
        if method != b"GET":
            return _response("405 Method Not Allowed", "Only GET is known.\n", "Allow: GET")
        if target.split(b"?", 1)[0] != b"/metrics":
            return _response("404 Not Found", "There is only /metrics.\n")
        return _response("200 OK", self._render(), kind=CONTENT_TYPE)


def _response(status: str, body: str, *more: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    content = body.encode("utf-8", "replace")
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(content)}",
        *more,
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + content


def _bind(path: Path) -> socket.socket:
    """A listening socket for the service's user and group; takes the place of one that nobody listens on."""
    bound = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.stat().st_mode) and not _is_answered(path):
                path.unlink()
        bound.bind(str(path))
        path.chmod(0o660)
        bound.setblocking(False)
    except BaseException:
        bound.close()
        raise
    return bound


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
