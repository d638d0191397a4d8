"""``famulus bench``: hands its arguments to the benchmark harness, which nothing else here imports."""

from __future__ import annotations

import argparse


def add_bench_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``bench``; the harness parses what follows, ``--help`` too."""
    parser = subparsers.add_parser(
        "bench",
        help="measure famulus on this machine; `famulus bench` lists what can be measured",
        add_help=False,
        prefix_chars="\0",  # no argument is an option here
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(handler=_bench)


def _bench(args: argparse.Namespace) -> int:
    from ...bench.__main__ import main

    return main(args.arguments, program="famulus bench")
