"""``python -m famulus.bench``: run a suite, print its tables, write its JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import FamulusError
from . import idle, slots, turns  # noqa: F401 - each registers its suite
from .ending import until_signal
from .registry import SUITES


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m famulus.bench", description="Measure famulus on this machine.")
    choices = parser.add_subparsers(title="suites", metavar="SUITE", dest="suite")
    runs = {}
    for suite in SUITES.values():
        own = choices.add_parser(suite.name, help=suite.help, description=suite.help)
        own.add_argument("--json", type=Path, metavar="OUT", help="write the results there, with the machine's data")
        runs[suite.name] = suite.setup(own)
    args = parser.parse_args(argv)
    if args.suite is None:
        parser.print_help()
        return 0
    try:
        report = asyncio.run(until_signal(runs[args.suite](args)))
    except FamulusError as error:
        print(error.message, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Stopped; nothing was written.", file=sys.stderr)
        return 130
    print("\n" + report.text(), end="")
    if args.json is not None:
        report.write_json(args.json)
        print(f"\nwritten to {args.json}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
