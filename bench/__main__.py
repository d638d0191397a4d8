"""``python -m famulus.bench``, or ``famulus bench``: run a suite, print its tables, write and compare its results."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.errors import FamulusError
from . import bus, cancel, energy, idle, llm, slots, turns, understanding, wake  # noqa: F401 - each registers its suite
from .compare import Earlier, judge_all, latest, read_earlier
from .condition import read_condition, troubles
from .ending import until_signal
from .page import to_html, to_markdown
from .registry import SUITES
from .report import Comparison, Report

RESULTS = Path(__file__).resolve().parent / "results"
_REGRESSED = 3


def main(argv: Sequence[str] | None = None, *, program: str = "python -m famulus.bench") -> int:
    """0 where the suite went well, 1 where not, 3 where ``--fail-on-regression`` found one, 130 when stopped."""
    parser = argparse.ArgumentParser(prog=program, description="Measure famulus on this machine.")
    choices = parser.add_subparsers(title="suites", metavar="SUITE", dest="suite")
    runs = {}
    for suite in SUITES.values():
        own = choices.add_parser(suite.name, help=suite.help, description=f"Measure {suite.help}.")
        runs[suite.name] = suite.setup(own)
        _add_output_options(own)
    args = parser.parse_args(argv)
    if args.suite is None:
        parser.print_help()
        return 0
    try:
        earlier = read_earlier(args.compare) if args.compare else None
        report = asyncio.run(until_signal(_watched(runs[args.suite](args))))
        report = replace(report, about=SUITES[args.suite].help, notes=(*report.notes, *args.note))
        report = _compared(report, args, earlier)
        print("\n" + report.text(), end="")
        _write(report, args)
    except FamulusError as error:
        print(error.message, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"The results cannot be written: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("Stopped; nothing was written.", file=sys.stderr)
        return 130
    if args.fail_on_regression and report.comparison is not None and report.comparison.regressions:
        return _REGRESSED
    return 0 if report.ok else 1


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    out = parser.add_argument_group("results")
    out.add_argument("--json", type=Path, metavar="OUT", help="write samples, machine and condition there")
    out.add_argument("--html", type=Path, metavar="OUT", help="write a page there that holds everything, plots too")
    out.add_argument("--md", type=Path, metavar="OUT", help="write the tables there as Markdown")
    out.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="compare with what an earlier --json wrote (default: the newest in bench/results/ of such a machine "
        "with the same parameters)",
    )
    out.add_argument("--note", action="append", default=[], metavar="TEXT", help="written beside the results")
    out.add_argument("--no-compare", action="store_true", help="compare with nothing")
    out.add_argument("--fail-on-regression", action="store_true", help="end with code 3 where a figure is worse")


async def _watched(work: Awaitable[Report]) -> Report:
    before = await asyncio.to_thread(read_condition)
    report = await work
    after = await asyncio.to_thread(read_condition)
    return replace(report, before=before, after=after, notes=(*report.notes, *troubles(before, after)))


def _compared(report: Report, args: argparse.Namespace, earlier: Earlier | None) -> Report:
    if args.no_compare:
        return report
    found = earlier or latest(RESULTS, report.suite, report.machine, report.parameters)
    if found is None:
        return report
    return replace(report, comparison=Comparison(found, tuple(judge_all(report.measurements, found.measurements))))


def _write(report: Report, args: argparse.Namespace) -> None:
    if args.json is not None:
        report.write_json(args.json)
        print(f"\nwritten to {args.json}")
    for path, make in ((args.html, to_html), (args.md, to_markdown)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make(report), "utf-8")
            print(f"written to {path}")


if __name__ == "__main__":
    sys.exit(main())
