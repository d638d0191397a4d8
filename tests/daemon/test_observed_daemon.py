"""The whole daemon, observed from outside: status, metrics, doctor."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.rig import Rig
from famulus.daemon.cli.render import status_text

pytestmark = pytest.mark.e2e


@pytest.fixture
def socket_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:
        yield Path(directory) / "metrics"


async def scrape(path: Path) -> str:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        answer = (await reader.read()).decode()
        writer.close()
    return answer


async def doctor(rig: Rig) -> dict[str, dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import sys; from famulus.daemon.cli import main; sys.exit(main())"),
        *("doctor", "--json", "--config", str(rig.daemon.config_file)),
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(rig.daemon.config_file.parent), "LANG": "C.UTF-8"},
    )
    async with asyncio.timeout(40):
        out, _ = await process.communicate()
    return {finding["name"]: finding for finding in json.loads(out)["findings"]}


async def test_a_run_and_the_board_are_seen_from_outside(socket_path: Path) -> None:
    settings = {"metrics": {"listen": f"unix:{socket_path}"}}
    async with Rig(audio="none", lamp=False, settings=settings) as rig:
        assert (await rig.client.ask("what time is it")).ok
        status = await rig.client.status()
        assert status["memory_available_mb"] > 0
        assert {"temperature_c", "throttled"} <= status.keys()
        assert status["health"]["board"] in ("ok", "throttled")
        assert status["last_runs"][-1]["stages_ms"].keys() == {"intent", "execute", "summarise"}
        assert "(intent " in status_text(status)

        told = await scrape(socket_path)
        assert 'famulus_runs_total{status="done",decided_by="sentences"} 1' in told
        assert 'famulus_stage_seconds_count{stage="intent"} 1' in told
        assert "famulus_memory_available_bytes" in told

        found = await doctor(rig)
        assert found["service"]["message"].endswith("runs and is idle.")
        assert (found["bus"]["level"], found["bus"]["message"]) == ("ok", "The session bus answers.")
        assert found["microphone"]["level"] == "ok"
        assert await rig.daemon.stop() == 0
    assert not await asyncio.to_thread(socket_path.exists)


async def test_an_address_that_is_taken_costs_the_metrics_and_nothing_else(socket_path: Path) -> None:
    await asyncio.to_thread(socket_path.write_text, "mine")
    settings = {"metrics": {"listen": f"unix:{socket_path}"}}
    async with Rig(audio="none", lamp=False, settings=settings) as rig:
        assert (await rig.client.ask("what time is it")).ok
        assert "change metrics.listen. famulus goes on without them." in rig.daemon.process.tail(100)
        assert await rig.daemon.stop() == 0
    assert await asyncio.to_thread(socket_path.read_text) == "mine"


async def test_the_doctor_asks_a_service_that_holds_the_microphone() -> None:
    async with Rig(audio="fifo", lamp=False) as rig:
        found = await doctor(rig)
        assert found["microphone"]["level"] == "ok"
        assert found["microphone"]["message"].startswith("famulus hears through file ")
