"""What each stage cost: watts while idle, joules per thing done, the idle draw subtracted and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..measurement import Measurement, measured
from .recorder import NO_SENSOR, Source, Span

_MIN_UPDATES = 3
"""A span with fewer readings in it says more about the sensor than about the work."""


@dataclass(frozen=True)
class Figure:
    """One cell: spans of ``stage`` as watts (``unit`` W) or as joules per counted thing, above ``base`` if named."""

    name: str
    stage: str
    unit: str
    base: str = ""


def costs(
    figures: Sequence[Figure], spans: Sequence[Span], sources: Sequence[Source], reasons: Sequence[str]
) -> list[Measurement]:
    """One measurement per figure and source; one without samples per figure where nothing could be read."""
    if not sources:
        why = "; ".join(dict.fromkeys(reasons)) or NO_SENSOR
        return [measured("energy", figure.name, figure.unit, (), reason=why) for figure in figures]
    return [_cost(figure, spans, source) for source in sources for figure in figures]


def _cost(figure: Figure, spans: Sequence[Span], source: Source) -> Measurement:
    subject = f"{source.name} ({source.covers})"
    own = [span for span in spans if span.stage == figure.stage]
    if not own:
        return measured(subject, figure.name, figure.unit, (), reason=f"nothing of the kind {figure.stage!r} happened")
    usable = [span for span in own if source.trace.updates(span.start, span.end) >= _MIN_UPDATES]
    if not usable:
        longest = max(span.seconds for span in own)
        why = f"the sensor has a value each {source.trace.interval_s:.3g} s, too seldom for spans of {longest:.2g} s"
        return measured(subject, figure.name, figure.unit, (), reason=why)
    base_w = 0.0
    if figure.base:
        found = _watts([span for span in spans if span.stage == figure.base], source)
        if found is None:
            why = f"the draw while {figure.base} is not known, so it cannot be subtracted"
            return measured(subject, figure.name, figure.unit, (), reason=why)
        base_w = found
    samples = []
    for span in usable:
        joules = source.trace.joules(span.start, span.end)
        if joules is not None:
            net = joules - base_w * span.seconds
            samples.append(net / span.seconds if figure.unit == "W" else net / span.count)
    return measured(subject, figure.name, figure.unit, samples, reason="readings are missing during it")


def _watts(spans: Sequence[Span], source: Source) -> float | None:
    """The mean draw over all spans that are covered."""
    covered = [(joules, span) for span in spans if (joules := source.trace.joules(span.start, span.end)) is not None]
    seconds = sum(span.seconds for _, span in covered)
    return sum(joules for joules, _ in covered) / seconds if seconds else None


def base_note(figures: Sequence[Figure], spans: Sequence[Span], sources: Sequence[Source]) -> list[str]:
    """What was subtracted, a sentence per source and base."""
    notes = []
    for source in sources:
        for base in dict.fromkeys(figure.base for figure in figures if figure.base):
            watts = _watts([span for span in spans if span.stage == base], source)
            if watts is not None:
                notes.append(f"{source.name}: {watts:.3f} W while {base} were subtracted where a figure says net.")
    return notes
