"""What is missing or wrong is said in one sentence, and whatever can run does."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.daemon import Daemon
from famulus.bench.rig import Rig

pytestmark = pytest.mark.e2e
NOWHERE = "unix:path=/nonexistent/bus"


@pytest.fixture
def short_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:
        yield Path(directory)


@asynccontextmanager
async def spawned(directory: Path, config: Mapping[str, Mapping[str, Any]]) -> AsyncIterator[Daemon]:
    """A daemon without a bus."""
    daemon = Daemon(directory, NOWHERE, config, {})
    await daemon.spawn()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def said(daemon: Daemon, words: str) -> str:
    """The log line that holds ``words``, once it is there."""
    async with asyncio.timeout(15):
        while True:
            for line in daemon.process.tail(100).splitlines():
                if words in line:
                    return line
            assert daemon.process.running, daemon.process.tail()
            await asyncio.sleep(0.02)


async def test_without_a_bus_the_daemon_says_so_and_keeps_running(short_path: Path) -> None:
    async with spawned(short_path, {"audio": {"source": "none"}}) as daemon:
        line = await said(daemon, "cannot be reached")
        assert "ERROR" in line and NOWHERE in line
        await said(daemon, "ready after")
        assert await daemon.stop() == 0


async def test_bad_settings_end_it_with_every_problem_named(short_path: Path) -> None:
    config = {"asr": {"modle": "x"}, "listen": {"silence_s": 99}}
    async with spawned(short_path, config) as daemon:
        assert await daemon.process.wait(15) == os.EX_CONFIG
    said_last = daemon.process.tail()
    assert "modle" in said_last and "model" in said_last
    assert "silence_s" in said_last
    assert str(daemon.config_file) in said_last
    assert "Traceback" not in said_last


async def test_a_model_that_does_not_exist_is_named_at_the_start(short_path: Path) -> None:
    async with spawned(short_path, {"llm": {"model": "smollm2-136m"}}) as daemon:
        assert await daemon.process.wait(15) not in (0, None)
    assert "smollm2-136m" in daemon.process.tail()
    assert "smollm2-135m" in daemon.process.tail()
    assert "Traceback" not in daemon.process.tail()


async def test_without_a_microphone_it_says_so_and_still_answers_text() -> None:
    settings = {"audio": {"source": "microphone", "device": "no such microphone"}}
    async with Rig(audio="none", settings=settings, lamp=False) as rig:
        assert "ERROR" in await said(rig.daemon, "There is no microphone")
        assert (await rig.client.properties())["Health"]["microphone"] == "mic_lost"
        assert "There is no microphone" in (await rig.client.status())["microphone"]["message"]
        assert (await rig.client.ask("what time is it")).ok


async def test_without_models_sentences_work_and_the_rest_says_what_to_run(tmp_path: Path) -> None:
    async with Rig(audio="none", settings={"storage": {"models": str(tmp_path)}}, lamp=False) as rig:
        assert "famulus models pull" in await said(rig.daemon, "smollm2-135m")
        assert (await rig.client.ask("what time is it")).ok
        reply = await rig.client.ask("please cheer me up a little")
        assert (reply.status, reply.error) == ("failed", "model_unavailable")
        assert "famulus models pull smollm2-135m" in reply.text


@pytest.mark.models
async def test_sigterm_ends_it_within_five_seconds_also_while_a_model_loads() -> None:
    async with Rig(audio="none", lamp=False) as rig:
        asking = asyncio.create_task(rig.client.ask("please cheer me up a little"))
        async with asyncio.timeout(10):
            while "loading" not in [slot["state"] for slot in (await rig.client.status())["slots"]]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        workers = await rig.daemon.children()
        async with asyncio.timeout(5):
            code = await rig.daemon.stop()
        assert code == 0, rig.daemon.process.tail()
        assert [pid for pid in workers if await asyncio.to_thread(os.path.exists, f"/proc/{pid}/exe")] == []
        asking.cancel()
        await asyncio.wait([asking])
