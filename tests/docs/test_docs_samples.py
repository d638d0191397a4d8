"""Every program printed in docs/capabilities.md runs, and does what the page says, beside a real daemon."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from famulus.bench.rig import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

PAGE = Path(__file__).parents[2] / "docs/capabilities.md"
SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's gi is built for it
_PROGRAM = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```", re.MULTILINE | re.DOTALL)
_WITHIN_S = 20

SPOKEN = {
    "kettle": {
        "boil the water to eighty degrees": "The water will have 80 degrees.",
        "heat the water to 80 degrees": "The water will have 80 degrees.",
        "boil some water": "The water will have 100 degrees.",
    },
    "shutter": {
        "set the left shutter to 30%": "The left shutter is at 30 percent.",
        "set the port shutter to thirty percent and close the right shutter": "The left shutter is at 30 percent. "
        "The right shutter is at 0 percent.",
        "把左边百叶窗调到百分之五十": "The left shutter is at 50 percent.",
        "where are the shutters": "Done.",
        "call the left shutter Bob the builder": "The left shutter is Bob the builder now.",
        "call the left shutter something that is far too long": "That name is too long; use 20 letters at most.",
    },
    "fan": {"set the fan to level two": "The fan runs at level 2.", "stop the fan": "The fan runs at level 0."},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig() -> AsyncIterator[Rig]:
    """A daemon that knows templates only: what the page shows of them must not hang on a model."""
    async with Rig(audio="none", lamp=False, settings={"llm": {"model": ""}, "embedder": {"model": ""}}) as rig:
        yield rig


@asynccontextmanager
async def running(python: str, file: Path, *arguments: str, bus: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(python, str(file), *arguments),
        env={**os.environ, "DBUS_SESSION_BUS_ADDRESS": bus},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.communicate(), _WITHIN_S)


def programs() -> dict[str, str]:
    return {name: text for text, name in _PROGRAM.findall(PAGE.read_text("utf-8"))}


async def _has_gi() -> bool:
    probe = await asyncio.create_subprocess_exec(SYSTEM_PYTHON, "-c", "import gi", stderr=asyncio.subprocess.DEVNULL)
    return await asyncio.wait_for(probe.wait(), _WITHIN_S) == 0


@pytest.mark.parametrize("name", SPOKEN)
async def test_an_app_of_the_page_does_what_the_page_says(name: str, rig: Rig, tmp_path: Path) -> None:
    if name == "fan" and not await _has_gi():
        pytest.skip("needs python3-gi")
    file = tmp_path / f"{name}.py"
    file.write_text(programs()[file.name], "utf-8")
    python = SYSTEM_PYTHON if name == "fan" else sys.executable
    async with running(python, file, bus=rig.daemon.bus_address) as app:
        assert app.stdout is not None
        line = await asyncio.wait_for(app.stdout.readline(), _WITHIN_S)
        assert b"is registered" in line, line
        for said, reply in SPOKEN[name].items():
            assert (await rig.client.ask(said, timeout_s=_WITHIN_S)).text == reply
    gone = await rig.client.ask(next(iter(SPOKEN[name])), timeout_s=_WITHIN_S)
    assert "is not running; start it first." in gone.text


async def test_the_program_that_asks_hears_the_end(rig: Rig, tmp_path: Path) -> None:
    file = tmp_path / "ask.py"
    file.write_text(programs()[file.name], "utf-8")
    async with running(sys.executable, file, rig.daemon.bus_address, bus=rig.daemon.bus_address) as program:
        out, _ = await asyncio.wait_for(program.communicate(), _WITHIN_S)
    lines = out.decode().splitlines()
    assert lines[0].startswith("done It is ")
    assert lines[-1] == "finished Timer set for 10 minutes."
