"""Heat and power: what slows the board down."""

from __future__ import annotations

import re

from ..board import SEEN, firmware_flags, read_board
from .finding import Finding, ok, warning
from .situation import Situation

_CLOSE_C = 5.0
_WORDS = {
    "under_voltage": "the supply voltage is too low",
    "frequency_capped": "the frequency is capped",
    "throttled": "the processor is slowed down",
    "soft_temperature_limit": "the soft temperature limit is reached",
    "under_voltage_seen": "the supply voltage was too low",
    "frequency_capped_seen": "the frequency was capped",
    "throttled_seen": "the processor was slowed down",
    "soft_temperature_limit_seen": "the soft temperature limit was reached",
    "over_current_seen": "the supply current was too high",
}


def temperature(situation: Situation) -> Finding:
    """The processor is cool enough to work at full speed."""
    reading = read_board(situation.machine.sys)
    if reading.temperature_c is None:
        return ok("temperature", "The board has no temperature sensor that can be read.")
    measured = f"The processor has {reading.temperature_c:.0f} °C, and slows down at {reading.limit_c:.0f} °C"
    if reading.temperature_c >= reading.limit_c - _CLOSE_C:
        return warning("temperature", f"{measured}.", "give it a heat sink or a fan, and air")
    return ok("temperature", f"{measured}.")


def throttling(situation: Situation) -> Finding:
    """Nothing holds the board back now, and nothing has since the boot."""
    machine = situation.machine
    flags = read_board(machine.sys).throttled
    if told := re.search(r"throttled=0x([0-9a-fA-F]+)", machine.output("vcgencmd", "get_throttled")):
        flags = tuple(dict.fromkeys((*firmware_flags(int(told[1], 16)), *flags)))
    if not flags:
        return ok("throttling", "Nothing holds the board back.")
    now = [_WORDS[flag] for flag in flags if not flag.endswith(SEEN)]
    since = [_WORDS[flag] for flag in flags if flag.endswith(SEEN) and flag.removesuffix(SEEN) not in flags]
    told_now = f"Now {' and '.join(now)}." if now else ""
    told_since = f"Since the boot {' and '.join(since)} for a time." if since else ""
    power = any("voltage" in flag or "current" in flag for flag in flags)
    mend = (
        "use the board's own power supply and a short, thick cable"
        if power
        else "give it a heat sink or a fan, and air"
    )
    return warning("throttling", " ".join(filter(None, (told_now, told_since))), mend)
