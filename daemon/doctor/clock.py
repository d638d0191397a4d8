"""The clock: right, and kept right."""

from __future__ import annotations

import time

from ..board import read_text
from .finding import Finding, fault, ok, warning
from .machine import Machine
from .situation import Situation

_PLAUSIBLE_SINCE = 1_704_067_200
"""The year 2024: this program is younger than that."""
_FLAT_UV = 1_000_000
_SYNCHRONISE = "sudo timedatectl set-ntp true"


def clock(situation: Situation) -> Finding:
    """The date is possible, a time server holds it, or a real-time clock at least keeps it."""
    machine = situation.machine
    now = machine.now()
    if now < _PLAUSIBLE_SINCE:
        date = time.strftime("%Y-%m-%d", time.gmtime(now))
        message = f"The clock says {date}, which cannot be: secure connections fail, and times are wrong."
        return fault("clock", message, _SYNCHRONISE)
    keeper = _keeper(machine)
    match machine.is_synchronised():
        case True:
            without = (
                "" if keeper else "; after a start without network it is wrong until then, which timers do not mind"
            )
            return ok("clock", f"The clock is set by a time server{without}.")
        case None:
            return ok("clock", "The kernel does not tell whether the clock is set by a time server.")
    if keeper:
        return warning("clock", f"No time server sets the clock; {keeper} keeps it for now.", _SYNCHRONISE)
    message = "No time server sets the clock and no real-time clock keeps it: it lags after each power cut."
    return warning("clock", message, _SYNCHRONISE)


def _keeper(machine: Machine) -> str:
    """The real-time clock that outlives a power cut, ``""`` for none."""
    for device in sorted(machine.sys.glob("class/rtc/rtc*")):
        battery = read_text(device / "battery_voltage")  # in µV; a Raspberry Pi 5 has it, and is sold without a battery
        if not battery.isdecimal() or int(battery) > _FLAT_UV:
            return f"the real-time clock {read_text(device / 'name') or device.name}"
    return ""
