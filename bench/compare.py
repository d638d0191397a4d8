"""Whether a figure differs from that of an earlier run, or only looks so.

Two sets of samples are compared by the Wilcoxon-Mann-Whitney rank test, and the size of the difference is the
Hodges-Lehmann estimate: the median of all ratios between a new and an old sample, with the confidence interval that
belongs to the test (Hollander and Wolfe, Nonparametric Statistical Methods, section 4.3). It assumes no normal
distribution and takes outliers calmly. At 99 %, five samples against five can tell only a complete separation, and
fewer can tell nothing, which is then said.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core.errors import InvalidArguments, NotFound
from .machine import same_machine
from .measurement import Measurement

CONFIDENCE = 0.99
MIN_CHANGE = 1.05
"""A difference below 5 % is not called one: between two runs on the same board as much comes and goes."""
_EXACT = 40
_MOST = 200

Kind = Literal["slower", "faster", "worse", "better", "changed", "same", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """``ratio`` is new over old, with ``low`` to ``high`` at 99 %; None where it cannot be told."""

    measurement: Measurement
    old: Measurement | None
    kind: Kind
    text: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def regression(self) -> bool:
        return self.kind in ("slower", "worse")

    def to_dict(self) -> dict[str, Any]:
        return {
            "subject": self.measurement.subject,
            "figure": self.measurement.figure,
            "verdict": self.kind,
            "text": self.text,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True)
class Earlier:
    """A result file of an earlier run."""

    path: Path
    when: str
    machine: dict[str, Any]
    parameters: dict[str, Any]
    measurements: tuple[Measurement, ...]


def judge(new: Measurement, old: Measurement | None) -> Verdict:
    """How ``new`` stands against ``old``, the same measurement of an earlier run."""
    if old is None or not old.samples:
        return Verdict(new, old, "unknown", "new: the earlier run did not measure it")
    if not new.samples:
        return Verdict(new, old, "unknown", f"not measured now: {new.reason}")
    if min(*new.samples, *old.samples) <= 0:
        return _judge_by_median(new, old)
    ratio, low, high = ratio_interval(new.samples, old.samples)
    if low is None or high is None:
        fewest = min(len(new.samples), len(old.samples))
        return Verdict(new, old, "unknown", f"{ratio:.2f}×, too few samples to tell ({fewest})", ratio)
    if low <= 1 <= high:
        return Verdict(new, old, "same", f"no difference seen ({low:.2f}–{high:.2f}×)", ratio, low, high)
    if max(ratio, 1 / ratio) < MIN_CHANGE:
        return Verdict(new, old, "same", f"within 5 % ({low:.2f}–{high:.2f}×)", ratio, low, high)
    kind, shown, ends = _named(new, ratio, low, high)
    return Verdict(new, old, kind, f"{kind} {shown:.2f}× ({ends[0]:.2f}–{ends[1]:.2f})", ratio, low, high)


def judge_all(new: Sequence[Measurement], old: Sequence[Measurement]) -> list[Verdict]:
    """One verdict for each of ``new``."""
    known = {measurement.key: measurement for measurement in old}
    return [judge(measurement, known.get(measurement.key)) for measurement in new]


def ratio_interval(new: Sequence[float], old: Sequence[float]) -> tuple[float, float | None, float | None]:
    """How many times ``old`` ``new`` is, and the 99 % interval of that; no interval for too few samples. All > 0."""
    ones, others = _thin(new), _thin(old)
    ratios = sorted(one / other for one in ones for other in others)
    rank = _critical(len(ones), len(others))
    if rank is None:
        return statistics.median(ratios), None, None
    return statistics.median(ratios), ratios[rank], ratios[-1 - rank]


def read_earlier(path: Path) -> Earlier:
    """A result as ``--json`` wrote it. Raises ``NotFound`` or ``InvalidArguments``."""
    try:
        body = json.loads(path.read_text("utf-8"))
        return Earlier(
            path,
            str(body["when"]),
            dict(body["machine"]),
            dict(body["parameters"]),
            tuple(Measurement.from_dict(value) for value in body.get("measurements", [])),
        )
    except FileNotFoundError:
        raise NotFound(f"{path} is missing; name a file that --json wrote.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArguments(f"{path} is not a result of famulus bench ({error!r}); name another file.") from None


def latest(folder: Path, suite: str, machine: dict[str, Any], parameters: dict[str, Any]) -> Earlier | None:
    """The newest result in ``folder`` of this suite, on such a machine, with the same parameters; else None."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            body = json.loads(path.read_text("utf-8"))
            if body.get("suite") == suite:
                found.append(read_earlier(path))
        except (OSError, ValueError, AttributeError, NotFound, InvalidArguments):
            continue  # another file, which is none of ours
    plain = json.loads(json.dumps(parameters))
    fitting = [one for one in found if same_machine(one.machine, machine) and one.parameters == plain]
    return max(fitting, key=lambda one: one.when, default=None)


def _judge_by_median(new: Measurement, old: Measurement) -> Verdict:
    """Samples at or below zero have no ratio: only the two medians are told."""
    change = statistics.median(new.samples) - statistics.median(old.samples)
    return Verdict(new, old, "unknown", f"{change:+.3g} {new.unit}".rstrip() + " (medians; zeros allow no ratio)")


def _named(new: Measurement, ratio: float, low: float, high: float) -> tuple[Kind, float, tuple[float, float]]:
    """The word for it, and the ratio turned so that it is above one."""
    up = ratio > 1
    ends = (low, high) if up else (1 / high, 1 / low)
    shown = ratio if up else 1 / ratio
    if not new.better:
        return "changed", ratio, (low, high)
    good = up == (new.better == "higher")
    speed = new.unit in ("s", "ms", "us") or new.unit.endswith("/s")
    kind: Kind = ("faster" if good else "slower") if speed else ("better" if good else "worse")
    return kind, shown, ends


def _thin(samples: Sequence[float]) -> list[float]:
    """At most ``_MOST`` samples, evenly over the order."""
    ordered = sorted(samples)
    if len(ordered) <= _MOST:
        return ordered
    return [ordered[index * (len(ordered) - 1) // (_MOST - 1)] for index in range(_MOST)]


def _critical(n: int, m: int) -> int | None:
    """How many of the ``n * m`` ordered ratios lie outside the interval at each end; None where n, m are too few."""
    alpha = (1 - CONFIDENCE) / 2
    if n > _EXACT or m > _EXACT:
        return max(0, math.floor(n * m / 2 - 2.576 * math.sqrt(n * m * (n + m + 1) / 12)))
    counts = _rank_counts(n, m)
    total = math.comb(n + m, n)
    below = 0
    for u, count in enumerate(counts):
        below += count
        if below / total > alpha:
            return u - 1 if u else None
    return None


@functools.cache
def _rank_counts(n: int, m: int) -> tuple[int, ...]:
    """How many orderings of n and m samples give each value of the Mann-Whitney statistic U, from 0 to n * m."""
    # Coefficients of the Gaussian binomial, multiplied and divided factor by factor.
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return tuple(counts)
