"""The ``famulus`` command: a client of the service like any other. Imports little, so that it starts at once."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from .codes import EXIT_CODES, INTERRUPTED, OK

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  famulus ask set a timer for ten minutes
  echo "what time is it" | famulus ask -
  famulus status --json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The console script ``famulus``; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that knows no Chinese gets question marks
    try:
        args = build_parser().parse_args(argv)
        code = int(args.handler(args))
        sys.stdout.flush()
        return code
    except SystemExit as done:  # how argparse ends --help, --version and wrong usage
        return done.code if isinstance(done.code, int) else OK
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


def build_parser() -> argparse.ArgumentParser:
    """All commands; each sets ``handler``, which takes the arguments and returns the exit code."""
    from .ask import add_ask_parser, add_listen_parser
    from .bench import add_bench_parser
    from .capabilities import add_capabilities_parser
    from .config import add_config_parser
    from .doctor import add_doctor_parser
    from .models import add_models_parser
    from .status import add_status_parser
    from .watch import add_watch_parser

    parser = argparse.ArgumentParser(
        "famulus",
        description="Talk to famulus, the private voice-and-text agent of this board, and look after it.",
        epilog=f"{EXIT_CODES}\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_ask_parser(commands)
    add_listen_parser(commands)
    add_status_parser(commands)
    add_doctor_parser(commands)
    add_watch_parser(commands)
    add_capabilities_parser(commands)
    add_config_parser(commands)
    add_models_parser(commands)
    add_bench_parser(commands)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"famulus {version('famulus')}")
        parser.exit()
