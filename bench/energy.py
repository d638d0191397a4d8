"""The energy of a run that is over, from the CSV file that an external meter wrote meanwhile."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..core.errors import InvalidArguments
from .machine import fingerprint
from .power.cost import Figure, base_note, costs
from .power.options import add_meter_options, meter_of
from .power.recorder import Source, Span
from .registry import Run, suite
from .report import Report


@suite("energy", help="the energy of an earlier run with --power, from the CSV file of an external meter")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("result", type=Path, metavar="RESULT", help="what --json wrote of a run with --power")
    add_meter_options(parser, required=True)
    return _run


async def _run(args: argparse.Namespace) -> Report:
    meter = meter_of(args)
    assert meter is not None, "--meter is required"
    body, spans, figures = _read(args.result)
    source = Source(meter.name, meter.covers, meter.trace(wall_minus_monotonic=0.0))
    return Report(
        "energy",
        body.get("machine") or fingerprint(),
        {"suite": body["suite"], "offset_s": args.meter_offset, "suite_parameters": body["parameters"]},
        {"of": body["when"], "readings": source.trace.readings, "interval_s": source.trace.interval_s},
        (),
        (
            f"The run is {body['suite']} of {body['when']}; the meter's file is {meter.path.name}.",
            *base_note(figures, spans, [source]),
        ),
        measurements=tuple(costs(figures, spans, [source], ())),
    )


def _read(path: Path) -> tuple[dict[str, Any], list[Span], tuple[Figure, ...]]:
    try:
        body = json.loads(path.read_text("utf-8"))
        energy = body["results"]["energy"]
        spans = [Span(**span) for span in energy["spans"]]
        figures = tuple(Figure(**figure) for figure in energy["figures"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArguments(
            f"{path} is not a result of a suite with --power ({error!r}); run the suite with --power --json {path}."
        ) from None
    return body, spans, figures
