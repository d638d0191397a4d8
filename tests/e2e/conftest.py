"""One daemon with a real bus, a real microphone, real models and an app beside it, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from famulus.bench.pulse import missing
from famulus.bench.recordings import Recording, load_recordings
from famulus.bench.rig import Rig

AUDIO = Path(__file__).parents[1] / "data" / "audio"


@pytest.fixture(scope="session")
def recordings() -> dict[str, Recording]:
    return {recording.name: recording for recording in load_recordings(AUDIO)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hearing_rig() -> AsyncIterator[Rig]:
    """A daemon that listens to a PulseAudio microphone."""
    if reason := missing():
        pytest.skip(reason)
    async with Rig(audio="pulse") as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reading_rig() -> AsyncIterator[Rig]:
    """A daemon without a microphone."""
    async with Rig(audio="none") as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model_rig() -> AsyncIterator[Rig]:
    """The same without a sentence encoder: what no template says goes to the language model."""
    async with Rig(audio="none", settings={"embedder": {"model": ""}}) as rig:
        yield rig
