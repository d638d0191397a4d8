"""``python -m famulus.daemon.doctor.hear DEVICE``: open the microphone, hear a second, print what came of it.

A program of its own, because a sound library that hangs or crashes must not take the doctor with it.
"""

from __future__ import annotations

import json
import sys

from ...core.errors import FamulusError
from ..voice.level import dbfs
from ..voice.microphone import Microphone
from ..voice.source import BLOCK_S

_SECONDS = 1.0


def hear(device: str) -> dict[str, object]:
    """``{"source", "dbfs"}``, with ``dbfs`` None for digital silence, or ``{"code", "message"}`` of an error."""
    microphone = Microphone(device)
    try:
        microphone.open()
        pcm = b"".join(microphone.read() for _ in range(round(_SECONDS / BLOCK_S)))
        return {"source": microphone.describe(), "dbfs": round(dbfs(pcm), 1) if any(pcm) else None}
    except FamulusError as error:
        return {"code": error.code, "message": error.message}
    finally:
        microphone.close()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(hear(sys.argv[1])) + "\n")
