"""SIGTERM ends a program as Ctrl-C does: by cancelling its work, so that every process it started is ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


async def until_signal(work: Awaitable[_T]) -> _T:
    """The result of ``work``; the first SIGTERM or SIGINT cancels it, further ones do not disturb the clean-up."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def cancel_once() -> None:
        if not task.cancelling():
            task.cancel()

    for number in numbers:
        loop.add_signal_handler(number, cancel_once)
    try:
        return await task
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
