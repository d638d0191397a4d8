"""``famulus doctor``: what is wrong with this board and its famulus, and what mends it. Works without the service."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from .codes import FAILED, OK
from .render import as_json
from .style import Style, clean

if TYPE_CHECKING:
    from ..doctor.finding import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}
_EPILOG = """\
exit codes:
  0    no fault; there may be warnings
  1    a fault: the line below it says what mends it
"""


def add_doctor_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus doctor``"""
    summary = "check microphone, bus, models, memory, disk, clock and heat, and say what mends them"
    parser = commands.add_parser(
        "doctor",
        help=summary,
        description=f"{summary.capitalize()}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--verify", action="store_true", help="read every byte of the models; takes a while")
    parser.add_argument("--config", type=Path, metavar="FILE", help="famulus.toml to use instead of the system's")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(handler=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from ..doctor.examine import examine
    from ..doctor.machine import Machine

    try:
        Path.home()
    except RuntimeError:  # a user without an account, as in a container: no file is its own
        os.environ["HOME"] = "/"
    style = Style(sys.stdout)
    levels: Counter[str] = Counter(ok=0, warning=0, fault=0)
    findings = []
    for finding in examine(Machine(), config=args.config, verify=args.verify):
        levels[finding.level] += 1
        findings.append(asdict(finding))
        if not args.json:
            print(finding_text(finding, style), flush=True)
    if args.json:
        print(as_json({"findings": findings, "count": dict(levels)}))
    else:
        print(style(count_text(levels), "bold"))
    return FAILED if levels["fault"] else OK


def finding_text(finding: Finding, style: Style) -> str:
    """A line for the finding, and one below it for what mends it."""
    level = style(f"{finding.level:<8}", _COLOURS[finding.level])
    lines = [f"{level} {finding.name:<13} {_line(finding.message)}"]
    if finding.mend:
        lines.append(f"{'':<22} mend: {style(_line(finding.mend), 'bold')}")
    return "\n".join(lines)


def count_text(levels: Counter[str]) -> str:
    """How many findings there are of each level."""

    def many(level: str) -> str:
        return f"{levels[level]} {level}{'' if levels[level] == 1 else 's'}"

    return f"{many('fault')}, {many('warning')}, {levels['ok']} ok"


def _line(text: str) -> str:
    return " ".join(clean(text).split())
