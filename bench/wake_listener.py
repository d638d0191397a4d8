"""One wake word engine in a process of its own, fed at the pace of a microphone; for the ``wake`` suite.

``python -m famulus.bench.wake_listener``, orders as JSON on standard input, the answer as JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from ..core.errors import FamulusError
from ..engines.protocols import BYTES_PER_SECOND, KeywordSpotter
from . import procfs
from .recordings import load_recordings, read_pcm

_BLOCK_S = 0.08
_TAIL_S = 1.5
"""A word may be heard so long after its last sample."""


class _Deaf:
    """Takes the audio and does nothing: what the pacing itself costs."""

    keywords = ()

    def process(self, pcm: bytes) -> None:
        return None

    def reset(self) -> None: ...

    def close(self) -> None: ...


def make_spotter(engine: str, keywords: list[str], models: str) -> KeywordSpotter:
    """As the daemon makes it; ``models`` is the folder of all models."""
    if engine == "none":
        return _Deaf()
    from ..daemon.hearing import spotter_factory
    from ..daemon.settings import Settings
    from ..models.catalogue import Catalogue
    from ..models.store import Store

    settings = Settings.model_validate({"wake": {"engine": engine, "keywords": keywords}})
    return spotter_factory(settings, Catalogue.load(), Store(Path(models)))()


def listen(order: dict[str, Any]) -> dict[str, Any]:
    """Memory and the processor time of each part of ``seconds``, in percent of one core, at real-time pace."""
    spotter = make_spotter(order["engine"], order["keywords"], order["models"])
    pcm = read_pcm(Path(order["recording"]))
    block = int(_BLOCK_S * BYTES_PER_SECOND)
    busy, hits = [], 0
    parts = int(order["parts"])
    part_s = order["seconds"] / parts
    position = 0
    due = time.monotonic()
    for _ in range(parts):
        begin, cpu = time.monotonic(), time.process_time()
        while time.monotonic() - begin < part_s:
            piece = pcm[position : position + block]
            position = (position + block) % len(pcm)
            hits += spotter.process(piece) is not None
            due += len(piece) / BYTES_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
        busy.append(100 * (time.process_time() - cpu) / (time.monotonic() - begin))
    after = procfs.memory(os.getpid())
    assert after is not None
    spotter.close()
    return {"cpu_percent": busy, "rss_mb": after.rss, "hits": hits}


def judge(order: dict[str, Any]) -> dict[str, Any]:
    """Each recording once, as fast as it goes: which words were heard in it."""
    spotter = make_spotter(order["engine"], order["keywords"], order["models"])
    block = int(_BLOCK_S * BYTES_PER_SECOND)
    heard = {}
    for recording in load_recordings(Path(order["folder"])):
        spotter.reset()
        pcm = read_pcm(recording.path) + bytes(int(_TAIL_S * BYTES_PER_SECOND))
        hits = [spotter.process(pcm[start : start + block]) for start in range(0, len(pcm), block)]
        heard[recording.name] = {
            "wake": recording.wake,
            "snr_db": recording.snr_db,
            "seconds": len(pcm) / BYTES_PER_SECOND,
            "hits": [hit.keyword for hit in hits if hit is not None],
        }
    spotter.close()
    return heard


if __name__ == "__main__":
    _order = json.load(sys.stdin)
    try:
        print(json.dumps({"listen": listen, "judge": judge}[_order["what"]](_order)))
    except FamulusError as _error:
        print(json.dumps({"error": _error.message}))
