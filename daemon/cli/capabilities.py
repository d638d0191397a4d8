"""``famulus capabilities``: what can be done now."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ...core.errors import NotFound
from .codes import OK
from .reach import add_bus_options, with_agent
from .render import as_json, capabilities_text
from .style import Style

if TYPE_CHECKING:
    from ...client import Agent


def add_capabilities_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus capabilities``"""
    summary = "list what can be done now, built in and by apps"
    parser = commands.add_parser("capabilities", help=summary, description=f"{summary.capitalize()}.")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="only this capability")
    add_bus_options(parser)
    parser.set_defaults(handler=_capabilities)


def _capabilities(args: argparse.Namespace) -> int:
    async def work(agent: Agent) -> int:
        capabilities = await agent.capabilities(args.name)
        if args.name and not capabilities:
            raise NotFound("There is no capability of that name; list all with: famulus capabilities")
        print(as_json(capabilities) if args.json else capabilities_text(capabilities, Style(sys.stdout)))
        return OK

    return with_agent(args, work)
