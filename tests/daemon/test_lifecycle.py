"""What systemd is told: a child process sends, this one receives (the library's call holds the GIL)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WATCHED = """
import asyncio, signal, sys
from famulus.daemon.lifecycle import feed_watchdog

async def main():
    done = 0
    moving = asyncio.Event()
    if sys.argv[1] == "moving":
        moving.set()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, moving.set)
    feeding = asyncio.create_task(feed_watchdog((lambda: done) if sys.argv[1] != "none" else None))
    for _ in range(600):
        done += moving.is_set()
        await asyncio.sleep(0.02)
        if feeding.done():
            return

asyncio.run(main())
"""

RELOADED = """
import asyncio, logging, sys
from famulus.daemon.lifecycle import Signals, notify

def reload():
    if sys.argv[1] == "broken":
        raise RuntimeError("no")

async def main():
    signals = Signals(reload)
    signals.install()
    await notify("STATUS=installed")
    await asyncio.wait_for(signals.wait(), 20)

logging.disable()
asyncio.run(main())
"""


class Manager:
    """The receiving end of ``$NOTIFY_SOCKET``, and the process that it started."""

    def __init__(self, socket_: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.socket = socket_
        self.process = process

    def receive(self, timeout: float = 10) -> str:
        self.socket.settimeout(timeout)
        return self.socket.recv(4096).decode()

    def hears_nothing_for(self, seconds: float) -> bool:
        try:
            self.receive(seconds)
        except TimeoutError:
            return True
        return False


Start = Callable[..., Manager]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    path = str(tmp_path / "notify")
    processes = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)

        def run(script: str, argument: str, **environment: str) -> Manager:
            kept = {key: value for key, value in os.environ.items() if not key.startswith("WATCHDOG_")}
            process = subprocess.Popen(
                [sys.executable, "-c", script, argument], env={**kept, "NOTIFY_SOCKET": path, **environment}
            )
            processes.append(process)
            return Manager(receiver, process)

        yield run
        for process in processes:
            process.kill()
            process.wait(5)


def test_it_pings_while_the_other_thread_makes_progress(start: Start) -> None:
    manager = start(WATCHED, "moving", WATCHDOG_USEC="400000")
    assert [manager.receive() for _ in range(4)] == ["WATCHDOG=1"] * 4


def test_it_pings_where_there_is_no_other_thread(start: Start) -> None:
    manager = start(WATCHED, "none", WATCHDOG_USEC="400000")
    assert [manager.receive() for _ in range(4)] == ["WATCHDOG=1"] * 4


def test_it_is_silent_while_the_other_thread_stands_still_and_pings_again_once_it_moves(start: Start) -> None:
    manager = start(WATCHED, "still", WATCHDOG_USEC="400000")
    assert manager.receive() == "WATCHDOG=1"
    assert manager.hears_nothing_for(0.8)
    manager.process.send_signal(signal.SIGUSR1)
    assert manager.receive() == "WATCHDOG=1"


@pytest.mark.parametrize("environment", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "400000", "WATCHDOG_PID": "1"}])
def test_it_sends_no_ping_that_nobody_asked_for(start: Start, environment: dict[str, str]) -> None:
    manager = start(WATCHED, "moving", **environment)
    assert manager.process.wait(10) == 0
    assert manager.hears_nothing_for(0.05)


@pytest.mark.parametrize("outcome", ["fine", "broken"])
def test_a_reload_is_announced_and_ended_also_where_it_fails(start: Start, outcome: str) -> None:
    manager = start(RELOADED, outcome)
    assert manager.receive() == "STATUS=installed"
    before_us = time.monotonic_ns() // 1000
    manager.process.send_signal(signal.SIGHUP)
    state, _, stamp = manager.receive().partition("\nMONOTONIC_USEC=")
    assert state == "RELOADING=1"
    assert before_us <= int(stamp) <= time.monotonic_ns() // 1000
    assert manager.receive() == "READY=1"
    manager.process.terminate()
    assert manager.process.wait(10) == 0
