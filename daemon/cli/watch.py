"""``famulus watch``: what happens, as it happens, until interrupted."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from ...core.errors import Failed
from .codes import NO_DAEMON, OK, tell
from .reach import add_bus_options, with_agent
from .render import as_json, event_json, event_line
from .style import Style

if TYPE_CHECKING:
    from ...client import Agent

_DESCRIPTION = """\
Print events as they happen, one line each, until Ctrl-C (which ends it with 0).
What people say is shown to root, to the service's own user and to group famulus-admin only.
"""


def add_watch_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus watch``"""
    parser = commands.add_parser(
        "watch",
        help="print events as they happen, one line each",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_bus_options(parser)
    parser.set_defaults(handler=_watch)


def _watch(args: argparse.Namespace) -> int:
    style = Style(sys.stdout)

    async def work(agent: Agent) -> int:
        async with agent.subscribe() as events:
            print("Watching; Ctrl-C ends it.", file=sys.stderr, flush=True)
            try:
                async for event in events:
                    at = time.strftime("%H:%M:%S")
                    line = as_json(event_json(event), indent=None) if args.json else event_line(event, at, style)
                    print(line, flush=True)
            except Failed as gone:
                return tell(gone, as_json=args.json, code=NO_DAEMON)
        return OK

    return with_agent(args, work, interrupted=OK)
