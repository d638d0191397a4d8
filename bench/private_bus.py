"""A D-Bus bus of our own: nothing of the machine's buses is seen or touched."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ..core.errors import InvalidArguments
from .processes import ManagedProcess

_START_S = 10.0
_SOCKET_PATH_LIMIT = 107  # bytes in sockaddr_un.sun_path, less the final zero

_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


class PrivateBus:
    """``dbus-daemon`` with its own configuration and socket in ``directory``; activates nothing."""

    def __init__(self, directory: Path) -> None:
        self._socket = directory / "bus"
        self._config = directory / "bus.conf"
        self._listening = asyncio.Event()
        self._process = ManagedProcess(
            "dbus-daemon",
            ["dbus-daemon", f"--config-file={self._config}", "--nofork", "--nopidfile", "--print-address=1"],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            on_line=self._on_line,
        )

    @property
    def address(self) -> str:
        return f"unix:path={self._socket}"

    async def start(self) -> None:
        check_socket_path(self._socket)
        await asyncio.to_thread(self._config.write_text, _CONFIG.format(socket=self._socket))
        await self._process.start()
        await self._process.wait_until(self._listening, "listening", _START_S)

    async def stop(self) -> None:
        await self._process.stop(grace_s=2.0)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _on_line(self, line: str) -> None:
        if line.startswith("unix:"):  # the address, printed once it listens
            self._listening.set()


def check_socket_path(path: Path) -> None:
    """Raises ``InvalidArguments`` where the kernel would cut the path of a Unix socket."""
    if len(os.fsencode(path)) > _SOCKET_PATH_LIMIT:
        raise InvalidArguments(f"{path} is too long for a socket; use a directory with a shorter path.")
