"""``famulus status``: the state of all parts."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from .codes import OK
from .reach import add_bus_options, with_agent
from .render import as_json, status_text
from .style import Style

if TYPE_CHECKING:
    from ...client import Agent


def add_status_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus status``"""
    summary = "show state, mode, health, models, uptime and memory"
    parser = commands.add_parser("status", help=summary, description=f"{summary.capitalize()}.")
    add_bus_options(parser)
    parser.set_defaults(handler=_status)


def _status(args: argparse.Namespace) -> int:
    async def work(agent: Agent) -> int:
        status = await agent.status()
        print(as_json(status) if args.json else status_text(status, Style(sys.stdout)))
        return OK

    return with_agent(args, work)
