"""``--power`` and its companions for the suites that measure energy."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.errors import InvalidArguments
from ..report import Report
from .cost import Figure, base_note, costs
from .meter import MeterFile, check_form, parse_columns
from .recorder import Recorder


def add_power_options(parser: argparse.ArgumentParser) -> None:
    """Where energy is read from; without ``--power`` nothing is read at all."""
    group = parser.add_argument_group("energy")
    group.add_argument("--power", action="store_true", help="measure energy by the sensors of this machine")
    group.add_argument("--power-root", type=Path, default=Path("/"), metavar="DIR", help="read DIR/sys instead of /sys")
    add_meter_options(group)


def add_meter_options(group: Any, *, required: bool = False) -> None:
    """The CSV file of an external meter."""
    group.add_argument("--meter", type=Path, metavar="CSV", required=required, help="an external meter's file")
    group.add_argument(
        "--meter-columns",
        default="time=time,watts=watts",
        metavar="ROLE=COLUMN,…",
        help="its columns: time, and watts or volts and amps (or mw, mv, ma); default: %(default)s",
    )
    group.add_argument("--meter-time", default="iso", metavar="FORM", help="iso, s or ms since 1970 (default: iso)")
    group.add_argument(
        "--meter-offset", type=float, default=0.0, metavar="S", help="how far the meter's clock is ahead of this one's"
    )


def meter_of(args: argparse.Namespace) -> MeterFile | None:
    """The meter that the arguments name. Raises ``InvalidArguments``."""
    if args.meter is None:
        return None
    return MeterFile(args.meter, parse_columns(args.meter_columns), args.meter_offset, check_form(args.meter_time))


@asynccontextmanager
async def recording(args: argparse.Namespace) -> AsyncIterator[Recorder | None]:
    """A running recorder; None without ``--power`` or ``--meter``."""
    meter = meter_of(args)
    if not args.power and meter is None:
        yield None
        return
    if not await asyncio.to_thread(args.power_root.is_dir):
        raise InvalidArguments(f"{args.power_root} is not a folder; --power-root names the one that holds sys.")
    recorder = Recorder(root=args.power_root, meter=meter)
    await asyncio.to_thread(recorder.start)
    try:
        yield recorder
    finally:
        await asyncio.to_thread(recorder.stop)


def with_energy(report: Report, recorder: Recorder | None, figures: tuple[Figure, ...]) -> Report:
    """The report with what the recorder found; the same report without one."""
    if recorder is None:
        return report
    sources = recorder.sources()
    notes = list(report.notes) + base_note(figures, recorder.spans, sources)
    if jump := recorder.clock_jump_s:
        notes.append(
            f"The wall clock was set by {jump:+.1f} s during the run. Sensors are read by the monotonic clock and not "
            "touched by it; a meter's file is merged by the clock as it was at the end."
        )
    energy = {
        "spans": recorder.spans_to_json(),
        "figures": [vars(figure) for figure in figures],
        "sources": [
            {
                "name": s.name,
                "covers": s.covers,
                "interval_s": round(s.trace.interval_s, 4),
                "readings": s.trace.readings,
            }
            for s in sources
        ],
        "not_usable": recorder.reasons,
    }
    return replace(
        report,
        measurements=(*report.measurements, *costs(figures, recorder.spans, sources, recorder.reasons)),
        results={**report.results, "energy": energy},
        notes=tuple(notes),
    )
