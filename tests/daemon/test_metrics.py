"""Metrics: what is counted, how it is written, and a server that answers this machine and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Failed
from famulus.daemon.agent.run import Event
from famulus.daemon.metrics import BUCKETS_S, Metrics
from famulus.daemon.metrics_server import MetricsServer
from famulus.daemon.settings_files import SettingsError, load_settings

STATUS = {
    "version": '1.2"3',
    "uptime_s": 61.5,
    "memory_mb": 55.5,
    "memory_available_mb": 1200,
    "temperature_c": 48.2,
    "throttled": ["under_voltage_seen"],
    "health": {"microphone": "ok", "wake_word": "ok"},
    "microphone": {"level_dbfs": -40.5, "frame_age_s": None, "losses": 2},
    "slots": [
        {"name": "llm", "state": "ready", "memory_mb": 180.0, "loads": 3, "last_load_s": 0.4, "queue": 1},
        {"name": "asr", "state": "unloaded", "memory_mb": 0.0, "loads": 0, "last_load_s": 0.0, "queue": 0},
    ],
}
WORDS = "call the doctor about my knee"
LINE = re.compile(r'[a-z_]+(\{[a-z_]+="([^"\\]|\\.)*"(,[a-z_]+="([^"\\]|\\.)*")*\})? -?[0-9.e+-]+')


def finished(status: str = "done", by: str = "sentences", **milliseconds: float) -> Event:
    data = {
        "status": status,
        "decided_by": by,
        "stages_ms": milliseconds,
        "reply": WORDS,
        "voice_ms": {"listen": 900.0},
    }
    return Event("finished", "r1", ":1.7", data)


def samples(text: str) -> dict[str, float]:
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
    }


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: STATUS)


def test_every_line_has_the_form_that_prometheus_reads(metrics: Metrics) -> None:
    metrics.on_event(finished(intent=1.0))
    text = metrics.text()
    assert text.endswith("\n")
    kinds = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            assert LINE.fullmatch(line), line
            family = re.split(r"[{ ]", line)[0]
            assert family in kinds or kinds.get(re.sub(r"_(bucket|sum|count)$", "", family)) == "histogram"
    assert 'famulus_info{version="1.2\\"3"} 1' in text


def test_runs_are_counted_by_how_they_ended_and_who_decided(metrics: Metrics) -> None:
    for event in (
        finished(),
        finished(),
        finished("failed", "model"),
        Event("wake", data={"keyword": "x", "score": 1}),
    ):
        metrics.on_event(event)
    metrics.on_event(Event("transcript", "r1", "", {"text": WORDS, "final": True}))
    found = samples(metrics.text())
    assert found['famulus_runs_total{status="done",decided_by="sentences"}'] == 2
    assert found['famulus_runs_total{status="failed",decided_by="model"}'] == 1
    assert found["famulus_wakes_total"] == 1


def test_stages_become_cumulative_histograms_in_seconds(metrics: Metrics) -> None:
    for milliseconds in (5.0, 6.0, 70_000.0):
        metrics.on_event(finished(select=milliseconds))
    found = samples(metrics.text())
    buckets = [found[f'famulus_stage_seconds_bucket{{stage="select",le="{bound}"}}'] for bound in (*BUCKETS_S, "+Inf")]
    assert buckets == [1, *[2] * 12, 3]
    assert found['famulus_stage_seconds_sum{stage="select"}'] == pytest.approx(70.011)
    assert found['famulus_stage_seconds_count{stage="listen"}'] == 3


def test_the_states_of_all_parts_are_told_and_what_is_unknown_is_left_out(metrics: Metrics) -> None:
    text = metrics.text()
    found = samples(text)
    assert found["famulus_temperature_celsius"] == 48.2
    assert found["famulus_memory_available_bytes"] == 1.2e9
    assert found['famulus_throttled{flag="under_voltage_seen"}'] == 1
    assert found['famulus_capture_state{state="ok"}'] == 1
    assert found['famulus_capture_state{state="deaf"}'] == 0
    assert found["famulus_capture_losses_total"] == 2
    assert found['famulus_slot_state{slot="llm",state="ready"}'] == 1
    assert found['famulus_slot_state{slot="asr",state="ready"}'] == 0
    assert found['famulus_slot_resident_bytes{slot="llm"}'] == 180e6
    assert 'famulus_slot_last_load_seconds{slot="asr"}' not in found
    assert "famulus_capture_frame_age_seconds" not in found


def test_no_word_that_was_said_is_told(metrics: Metrics) -> None:
    metrics.on_event(finished(intent=1.0))
    metrics.on_event(Event("transcript", "r1", "", {"text": WORDS, "final": True}))
    assert not any(word in metrics.text() for word in ("call", "knee"))


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fam-") as directory:  # short enough for a socket's path
        yield Path(directory)


@pytest.fixture
async def server(metrics: Metrics) -> AsyncIterator[MetricsServer]:
    made = MetricsServer("127.0.0.1:0", metrics.text, deadline_s=0.5)
    await made.start()
    yield made
    await made.stop()


async def ask(request: bytes, **where: Any) -> bytes:
    """The whole answer; ``b""`` where the connection is ended without one."""
    async with asyncio.timeout(10):
        opened = asyncio.open_unix_connection(**where) if "path" in where else asyncio.open_connection(**where)
        reader, writer = await opened
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"GET /metrics?a=b HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 4000 + b"\r\n", b"431"),
    ],
)
async def test_only_a_get_of_metrics_is_answered(server: MetricsServer, request_: bytes, status: bytes) -> None:
    answer = await ask(request_, host="127.0.0.1", port=server.port)
    if not (status == b"431" and answer == b""):  # what was not read may reset the connection under the answer
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status)
        assert f"Content-Length: {len(body)}".encode() in head
    assert (await ask(b"GET /metrics HTTP/1.1\r\n\r\n", host="127.0.0.1", port=server.port)).startswith(b"HTTP/1.1 200")


async def test_a_client_that_says_nothing_is_let_go_and_too_many_are_refused(server: MetricsServer) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(16)]
    await asyncio.sleep(0.1)
    assert await ask(b"GET /metrics HTTP/1.1\r\n\r\n", host="127.0.0.1", port=server.port) == b""
    async with asyncio.timeout(5):
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
    assert b"200 OK" in await ask(b"GET /metrics HTTP/1.1\r\n\r\n", host="127.0.0.1", port=server.port)


async def test_a_client_that_does_not_read_is_let_go(folder: Path) -> None:
    made = MetricsServer(f"unix:{folder / 'm'}", lambda: "x" * 5_000_000, deadline_s=0.2)
    await made.start()
    _, writer = await asyncio.open_unix_connection(folder / "m")
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(5):
        await asyncio.sleep(0.05)
        while made._connections:  # noqa: ASYNC110 - nothing tells a stranger of it
            await asyncio.sleep(0.02)
    writer.close()
    await made.stop()


async def test_a_broken_status_ends_that_connection_alone(caplog: pytest.LogCaptureFixture) -> None:
    made = MetricsServer("[::1]:0" if socket.has_dualstack_ipv6() else "127.0.0.1:0", lambda: str(1 // 0))
    await made.start()
    host = made._listen.rpartition(":")[0].strip("[]")
    assert await ask(b"GET /metrics HTTP/1.1\r\n\r\n", host=host, port=made.port) == b""
    assert await ask(b"GET / HTTP/1.1\r\n\r\n", host=host, port=made.port) != b""
    await made.stop()


async def test_a_unix_socket_is_for_user_and_group_and_goes_with_the_server(metrics: Metrics, folder: Path) -> None:
    path = folder / "metrics"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    first = MetricsServer(f"unix:{path}", metrics.text)
    await first.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert b"200 OK" in await ask(b"GET /metrics HTTP/1.1\r\n\r\n", path=str(path))
    with pytest.raises(Failed, match=r"change metrics\.listen"):
        await MetricsServer(f"unix:{path}", metrics.text).start()
    assert b"200 OK" in await ask(b"GET /metrics HTTP/1.1\r\n\r\n", path=str(path))
    await first.stop()
    assert not path.exists()


async def test_a_file_in_the_place_of_the_socket_stays(metrics: Metrics, folder: Path) -> None:
    (folder / "metrics").write_text("mine")
    with pytest.raises(Failed):
        await MetricsServer(f"unix:{folder / 'metrics'}", metrics.text).start()
    assert (folder / "metrics").read_text() == "mine"


async def test_stopping_ends_open_connections_and_frees_the_port(server: MetricsServer, metrics: Metrics) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    port = server.port
    await asyncio.sleep(0.05)
    await server.stop()
    await server.stop()
    async with asyncio.timeout(5):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    again = MetricsServer(f"127.0.0.1:{port}", metrics.text)
    await again.start()
    with pytest.raises(Failed):
        await MetricsServer(f"127.0.0.1:{port}", metrics.text).start()
    await again.stop()


@pytest.mark.parametrize("listen", ["", "127.0.0.1:9099", "127.3.2.1:1", "[::1]:9099", "unix:/run/famulus/metrics"])
def test_only_this_machine_may_be_served(listen: str) -> None:
    settings = load_settings(None, {"FAMULUS_METRICS__LISTEN": listen})
    assert settings.metrics.listen == listen


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:9099", "[::]:9099", ":9099", "9099", "192.168.1.2:80", "127.0.0.1", "127.0.0.1:x",
               "127.0.0.1:70000", "localhost:1", "unix:relative", "unix:/a\0b", "http://127.0.0.1:9099"],
)  # fmt: skip
def test_all_else_is_refused_with_what_to_write(listen: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.listen: must be empty, unix:/path or a loopback address"):
        load_settings(None, {"FAMULUS_METRICS__LISTEN": listen})
