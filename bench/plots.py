"""A report's measurements as pictures, by matplotlib where the extra ``bench`` is installed."""

from __future__ import annotations

import io
import os
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

from .measurement import Measurement

MISSING = "matplotlib is not installed, so this page has tables only: pip install 'famulus[bench]' adds plots."
_ROW_INCHES = 0.42


def plots(measurements: Sequence[Measurement]) -> list[tuple[str, str]] | None:
    """``(title, SVG)`` per figure and unit that has samples; None where matplotlib is not installed.

    Each dot is a sample, the line their median; the subjects stand below each other.
    """
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        return None
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        if measurement.samples:
            groups.setdefault((measurement.figure, measurement.unit), []).append(measurement)
    made = []
    for (figure, unit), group in groups.items():
        picture = Figure(figsize=(8, 1.1 + _ROW_INCHES * len(group)), layout="constrained")
        axes = picture.add_subplot()
        _draw(axes, group, unit)
        out = io.StringIO()
        FigureCanvasSVG(picture).print_svg(out, metadata={"Date": None})
        made.append((figure, out.getvalue()[out.getvalue().index("<svg") :]))
    return made


def _draw(axes: Any, group: Sequence[Measurement], unit: str) -> None:
    rows = range(len(group))
    for row, measurement in zip(rows, group, strict=True):
        samples = measurement.samples
        middle = statistics.median(samples)
        axes.barh(row, middle, height=0.55, color="#c9d9ee")
        axes.plot(samples, [row] * len(samples), "o", color="#1f4e8c", alpha=0.55, markersize=5, clip_on=False)
        axes.plot([middle, middle], [row - 0.3, row + 0.3], color="#b3261e", linewidth=2)
    axes.set_yticks(list(rows), [measurement.subject for measurement in group])
    axes.set_ylim(len(group) - 0.5, -0.5)
    axes.margins(x=0.03)
    if min(min(measurement.samples) for measurement in group) >= 0:
        axes.set_xlim(left=0)
    better = group[0].better
    axes.set_xlabel(unit + (f" ({better} is better)" if better else ""))
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
