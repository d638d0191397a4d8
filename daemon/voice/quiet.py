"""Keeps ALSA and JACK from writing to the journal about every device that a board does not have."""

from __future__ import annotations

import ctypes
import os
from typing import Any


def _ignore(*_: Any) -> None:
    """What matters of it also comes as PortAudio's error code; most boards run no JACK server at all."""


# void (*)(const char *file, int line, const char *function, int error, const char *format, ...)
_ALSA_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p)(
    _ignore
)
_JACK_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_ignore)  # void (*)(const char *message)


def silence_sound_libraries() -> None:
    """Give ALSA and JACK handlers that write nothing, and keep PortAudio from starting a JACK server."""
    os.environ.setdefault("JACK_NO_START_SERVER", "1")
    alsa = _library("libasound.so.2")
    if alsa is not None:
        alsa.snd_lib_error_set_handler(_ALSA_HANDLER)
    jack = _library("libjack.so.0")
    if jack is not None:
        jack.jack_set_error_function(_JACK_HANDLER)
        jack.jack_set_info_function(_JACK_HANDLER)


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
