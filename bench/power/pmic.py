"""The Raspberry Pi 5's power chip, by ``vcgencmd pmic_read_adc``: volts and amperes of the rails behind it.

It measures what the chip's converters give out, not what the board takes in: their losses, the 5 V rail and
everything on USB are missing. So the figure is reported as that of the rails, and compared with nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .sensor import Found, Reading

_LINE = re.compile(
    r"(?P<name>[\w.+-]+?)[_ ](?P<kind>[AV])\b[^=\n]*="
    r"\s*(?P<value>[-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(?P<scale>[mµu]?)[AV]?\b"
)
_SCALES = {"": 1.0, "m": 1e-3, "µ": 1e-6, "u": 1e-6}
COVERS = "rails only, misses the input side"

Run = Callable[[Sequence[str]], str | None]


def parse_rails(text: str) -> dict[str, float]:
    """Watts by rail, for every rail with both a current and a voltage; ``{}`` for text of another form."""
    values: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if (found := _LINE.search(line)) is None:
            continue
        try:
            value = float(found["value"]) * _SCALES[found["scale"]]
        except ValueError:
            continue
        values.setdefault(found["name"], {})[found["kind"]] = value
    return {name: pair["A"] * pair["V"] for name, pair in values.items() if len(pair) == 2}


@dataclass(frozen=True)
class PmicSensor:
    """All rails together. ``rails`` are those seen at the start; with one of them missing there is no reading."""

    run: Run
    rails: frozenset[str]
    name: str = "Pi 5 power chip"
    covers: str = COVERS
    interval_s: float = 0.25  # each reading starts a process

    def read(self) -> Reading | None:
        rails = parse_rails(self.run(["vcgencmd", "pmic_read_adc"]) or "")
        if not rails or not self.rails <= rails.keys():
            return None
        return Reading(watts=sum(rails[name] for name in self.rails))


def find_pmic(run: Run) -> Found:
    """The power chip, where vcgencmd knows of one."""
    told = run(["vcgencmd", "pmic_read_adc"])
    if told is None:
        return Found()
    rails = parse_rails(told)
    if not rails:
        return Found(reasons=("vcgencmd pmic_read_adc gives no rails (only a Raspberry Pi 5 has them)",))
    return Found((PmicSensor(run, frozenset(rails)),))
