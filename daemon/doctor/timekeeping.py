"""Whether the kernel's clock is held in step by a time server, whichever program does it."""

from __future__ import annotations

import ctypes

_MAX_ERROR_US = 16_000_000
"""The kernel's estimate of the clock's error grows to this once nothing corrects it (``ntp_adjtime(3)``)."""


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("rest", ctypes.c_byte * 256),  # more than any ABI has
    )


def synchronised() -> bool | None:
    """As ``timedatectl`` tells; None where the kernel does not say."""
    state = _Timex()
    try:
        if ctypes.CDLL(None).adjtimex(ctypes.byref(state)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return int(state.maxerror) < _MAX_ERROR_US
