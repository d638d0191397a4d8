"""Reaching the service: one connection for one command, and how its failure ends the program."""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ...core.errors import FamulusError, InvalidArguments
from .codes import INTERRUPTED, NO_DAEMON, tell

if TYPE_CHECKING:
    from ...client import Agent

_START = "start the service with systemctl start famulus, or name its bus with --bus."


def add_bus_options(parser: argparse.ArgumentParser) -> None:
    """``--bus`` and ``--json``, for a command that talks to the service."""
    parser.add_argument(
        "--bus",
        default=os.environ.get("FAMULUS_BUS__ADDRESS") or "auto",
        metavar="ADDRESS",
        help="auto, session, system or a D-Bus address (default: $FAMULUS_BUS__ADDRESS, else auto)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def with_agent(
    args: argparse.Namespace, work: Callable[[Agent], Awaitable[int]], *, interrupted: int = INTERRUPTED
) -> int:
    """Connect, run ``work`` and return its exit code, or that of what went wrong."""
    import asyncio

    try:
        return asyncio.run(_reach(args, work))
    except KeyboardInterrupt:
        return interrupted


async def _reach(args: argparse.Namespace, work: Callable[[Agent], Awaitable[int]]) -> int:
    from ...client.agent import NAME, connect

    async with AsyncExitStack() as stack:
        try:
            name = os.environ.get("FAMULUS_BUS__NAME") or NAME
            agent = await stack.enter_async_context(connect(args.bus, name))
            await agent.properties()  # tells at once whether anybody is there, and has systemd start it where it can
        except InvalidArguments as error:
            return tell(error, as_json=args.json)
        except FamulusError as error:
            reason = error.message.rpartition(";")[0] or error.message.rstrip(".")
            return tell(type(error)(f"{reason}; {_START}"), as_json=args.json, code=NO_DAEMON)
        try:
            return await work(agent)
        except FamulusError as error:
            return tell(error, as_json=args.json)
