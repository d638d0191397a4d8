"""One engine behind a host: the same contract for a worker process and for a thread."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Cancelled, Failed, InvalidArguments, ModelUnavailable, TimedOut
from famulus.engines.host import Host
from famulus.engines.process import ProcessHost
from famulus.engines.protocols import Completion, Generation, Transcript

OpenHost = Callable[..., Host]
Eventually = Callable[..., Awaitable[None]]
HERE = Path(__file__).parent


async def transcribe(host: Host, command: str, timeout_s: float = 10) -> Transcript:
    result = await host.call("transcribe", command.encode(), timeout_s=timeout_s)
    assert isinstance(result, Transcript)
    return result


async def test_every_kind_of_request_comes_back_unchanged(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    assert (await transcribe(host, "hello")).text.startswith("5 bytes")
    assert await host.call("prepare", "again", timeout_s=5) == "kept"
    vectors = await host.call("embed", ["", "é漢", "x" * 100_000], timeout_s=5)
    assert vectors == [[0.0, 1e-17, -1.0], [2 / 3, 1e-17, -1.0], [100_000 / 3, 1e-17, -1.0]]
    assert await host.call("embed", [], timeout_s=5) == []
    assert await host.call("synthesize", "hi", "zh", timeout_s=5) == b"zh:hi"
    request = Generation("prefix", "suffix\ud800", grammar='root ::= "a"', max_tokens=3, stop=("\n", "</s>"), seed=7)
    pieces = [piece async for piece in host.stream("generate", request, timeout_s=5)]
    assert pieces[:-1] == ["0 é漢 ", "1 é漢 ", "2 é漢 "]
    assert pieces[-1] == Completion("".join(pieces[:-1]), "stop", 3, 6, "kept", 0.1, 0.2)


async def test_closes_the_engine_when_asked_to(open_host: OpenHost, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    host = open_host(journal=str(journal))
    await host.start(timeout_s=20)
    await host.close()
    assert host.exited.is_set()
    assert not host.alive
    assert host.rss_bytes() == 0
    assert [line.split()[0] for line in journal.read_text().splitlines()] == ["begin", "end", "close"]
    with pytest.raises(ModelUnavailable, match="unloaded"):
        await transcribe(host, "hello")


async def test_a_load_that_fails_says_why(open_host: OpenHost) -> None:
    with pytest.raises(ModelUnavailable, match="The model file is missing; fetch it"):
        await open_host(load="missing").start(timeout_s=20)
    with pytest.raises(ModelUnavailable, match="RuntimeError: a native library said no"):
        await open_host(load="bug").start(timeout_s=20)
    with pytest.raises(ModelUnavailable, match="unexpected keyword"):
        await open_host(colour="red").start(timeout_s=20)


async def test_a_load_has_a_deadline(open_host: OpenHost) -> None:
    host = open_host(load_s=3)
    with pytest.raises(ModelUnavailable, match=r"had not loaded after 0\.3 s"):
        await host.start(timeout_s=0.3)
    await host.kill()
    assert host.exited.is_set()


async def test_a_cancelled_load_ends_the_host(open_host: OpenHost) -> None:
    host = open_host(load_s=3)
    task = asyncio.create_task(host.start(timeout_s=20))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(host.exited.wait(), 2)


async def test_an_engines_own_error_crosses_with_its_class(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    with pytest.raises(InvalidArguments, match="at most 30 s"):
        await transcribe(host, "refuse")
    assert (await transcribe(host, "still there")).audio_s > 0


async def test_a_foreign_exception_tells_its_type_and_never_its_text(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    with pytest.raises(Failed, match="ValueError") as caught:
        await transcribe(host, "bug")
    assert "secret" not in str(caught.value)
    assert host.alive


async def test_only_the_protocols_methods_can_be_reached(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    for method in ("close", "_note", "__init__", "unknown"):
        with pytest.raises(InvalidArguments):
            await host.call(method, timeout_s=5)


async def test_a_cancelled_task_stops_the_decode_and_the_engine_stays(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    task = asyncio.create_task(transcribe(host, "wait 30", timeout_s=60))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert host.settling
    assert (await transcribe(host, "next")).text
    assert host.alive
    assert not host.settling


async def test_a_decode_that_ignores_a_cancel_costs_the_engine_its_host(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    task = asyncio.create_task(transcribe(host, "stuck 3", timeout_s=60))
    await asyncio.sleep(0.1)
    task.cancel()
    cancelled_at = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(host.exited.wait(), 2)
    assert time.monotonic() - cancelled_at >= host._cancel_grace_s
    assert "did not stop within 100 ms" in host.exit_reason


async def test_a_request_past_its_deadline_is_cancelled(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    with pytest.raises(TimedOut, match=r"did not finish in 0\.2 s"):
        await transcribe(host, "wait 30", timeout_s=0.2)
    assert (await transcribe(host, "next")).text


async def test_closing_a_stream_stops_the_generation(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    stream = host.stream("generate", Generation("p", "slow", max_tokens=10_000), timeout_s=60)
    assert await anext(stream) == "0 é漢 "
    await stream.aclose()
    assert (await transcribe(host, "next")).text


async def test_a_stream_has_one_deadline_for_all_of_it(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    seen = 0
    with pytest.raises(TimedOut):
        async for _ in host.stream("generate", Generation("p", "slow", max_tokens=10_000), timeout_s=0.3):
            seen += 1
    assert seen > 2


async def test_cancel_all_tells_those_who_still_wait(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    stream = host.stream("generate", Generation("p", "slow", max_tokens=10_000), timeout_s=60)
    await anext(stream)
    host.cancel_all()
    with pytest.raises(Cancelled):
        async for _ in stream:
            pass


async def test_an_engine_that_calls_sys_exit_is_gone(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    with pytest.raises(ModelUnavailable, match="the engine exited with 3"):
        await transcribe(host, "sysexit")
    assert host.exited.is_set()


async def test_killing_fails_what_runs(open_host: OpenHost) -> None:
    host = open_host()
    await host.start(timeout_s=20)
    task = asyncio.create_task(transcribe(host, "wait 30"))
    await asyncio.sleep(0.05)
    await host.kill("the test wants it so")
    with pytest.raises(ModelUnavailable, match="the test wants it so"):
        await task
    await host.kill()
    await host.close()


@pytest.fixture
async def worker(fake_process: Callable[..., ProcessHost]) -> Any:
    host = fake_process()
    await host.start(timeout_s=20)
    yield host
    await host.kill()


def proc(pid: int | str, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def open_files(pid: int) -> list[str]:
    return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]


def pid_of(host: Host) -> int:
    assert host.pid
    return host.pid


async def test_kill_9_during_a_decode_is_told_with_the_signal(worker: ProcessHost) -> None:
    task = asyncio.create_task(transcribe(worker, "wait 30"))
    await asyncio.sleep(0.1)
    os.kill(pid_of(worker), signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match="SIGKILL"):
        await task
    assert worker.exited.is_set()
    assert worker.rss_bytes() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid_of(worker), 0)  # reaped, no zombie


async def test_an_exit_inside_a_native_library_is_told_with_code_and_last_line(worker: ProcessHost) -> None:
    with pytest.raises(ModelUnavailable, match=r"exit code 255.*last words"):
        await transcribe(worker, "exit 255")


async def test_an_exit_during_the_load_is_told_with_code_and_last_line(fake_process: Any) -> None:
    with pytest.raises(ModelUnavailable, match=r"exit code 255.*tokens\.txt is not base64"):
        await fake_process(load="exit255").start(timeout_s=20)


async def test_a_stopped_worker_costs_one_deadline_and_is_killed(worker: ProcessHost) -> None:
    os.kill(pid_of(worker), signal.SIGSTOP)
    with pytest.raises(TimedOut):
        await transcribe(worker, "hello", timeout_s=0.2)
    await asyncio.wait_for(worker.exited.wait(), 2)


async def test_a_stopped_worker_takes_a_large_request_without_blocking_the_loop(worker: ProcessHost) -> None:
    os.kill(pid_of(worker), signal.SIGSTOP)
    with pytest.raises(TimedOut):
        await worker.call("transcribe", bytes(8 << 20), timeout_s=0.2)
    await asyncio.wait_for(worker.exited.wait(), 2)


async def test_a_stopped_worker_can_be_closed(worker: ProcessHost) -> None:
    os.kill(pid_of(worker), signal.SIGSTOP)
    await worker.close(grace_s=0.1)
    assert worker.exited.is_set()


async def test_garbage_on_the_wire_ends_the_worker(worker: ProcessHost) -> None:
    with pytest.raises(ModelUnavailable, match="garbage"):
        await transcribe(worker, "garbage")
    await asyncio.wait_for(worker.exited.wait(), 2)


async def test_options_that_cannot_travel_start_no_worker(fake_process: Callable[..., ProcessHost]) -> None:
    host = fake_process(journal=object())
    with pytest.raises(TypeError):
        await host.start(timeout_s=5)
    assert host.exited.is_set()
    assert host.pid is None


async def test_a_worker_that_cannot_be_started_is_told(
    fake_process: Callable[..., ProcessHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    host = fake_process()
    with pytest.raises(ModelUnavailable, match="could not be started"):
        await host.start(timeout_s=5)
    assert host.exited.is_set()


async def test_an_engine_nobody_knows_is_told(fake_process: Callable[..., ProcessHost]) -> None:
    for engine, text in [("telepathy", "no engine named"), ("fake_engine:Nobody", "cannot be imported")]:
        host = fake_process()
        host.engine = engine
        with pytest.raises(ModelUnavailable, match=text):
            await host.start(timeout_s=20)


async def test_a_worker_that_receives_garbage_ends(worker: ProcessHost) -> None:
    assert worker._writer
    worker._writer.write(b"this is not a frame")
    await asyncio.wait_for(worker.exited.wait(), 5)
    assert "exit code 2" in worker.exit_reason


async def test_a_request_too_large_for_the_wire_is_refused_and_the_worker_stays(worker: ProcessHost) -> None:
    with pytest.raises(InvalidArguments, match="too large"):
        await worker.call("transcribe", bytes(65 << 20), timeout_s=5)
    assert (await transcribe(worker, "hello")).text


async def test_a_result_too_large_for_the_wire_is_an_error_and_the_worker_stays(worker: ProcessHost) -> None:
    with pytest.raises(Failed, match="too large"):
        await transcribe(worker, "huge", timeout_s=20)
    assert (await transcribe(worker, "hello")).text


async def test_a_large_request_arrives_whole(worker: ProcessHost) -> None:
    result = await worker.call("transcribe", bytes(8 << 20), timeout_s=20)
    assert result.audio_s == (8 << 20) / 32000


async def test_the_worker_runs_apart(worker: ProcessHost) -> None:
    pid = pid_of(worker)
    assert int(proc(pid, "oom_score_adj")) == min(int(proc("self", "oom_score_adj")) + 500, 1000)
    assert os.getpgid(pid) == pid
    os.kill(pid, signal.SIGINT)
    assert (await transcribe(worker, "hello")).text
    assert len([name for name in open_files(pid) if name.startswith("socket:")]) == 1


async def test_the_service_managers_variables_stay_with_the_daemon(
    fake_process: Callable[..., ProcessHost], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/nowhere")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/secrets")
    host = fake_process()
    await host.start(timeout_s=20)
    environment = proc(pid_of(host), "environ")
    await host.close()
    assert "NOTIFY_SOCKET" not in environment
    assert "CREDENTIALS_DIRECTORY" not in environment


async def test_stdout_of_the_engine_goes_to_the_debug_log(
    fake_process: Callable[..., ProcessHost], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "famulus.engines")
    host = fake_process()
    await host.start(timeout_s=20)
    await host.close()
    chatter = [record for record in caplog.records if "native chatter" in record.getMessage()]
    assert [record.levelname for record in chatter] == ["DEBUG"]


async def test_the_memory_comes_back(fake_process: Callable[..., ProcessHost]) -> None:
    def own_rss() -> int:
        return int(proc("self", "statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(2):  # the first round pays for the parent's own imports
        before = own_rss()
        host = fake_process(megabytes=100)
        await host.start(timeout_s=20)
        await transcribe(host, "hello")
        assert host.rss_bytes() > 100 << 20
        await host.close()
        assert host.rss_bytes() == 0
    assert own_rss() - before < 5 << 20


def is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in proc(pid, "status")
    except OSError:
        return False


def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import asyncio, pathlib, sys
        from famulus.engines.process import ProcessHost
        async def main():
            host = ProcessHost("fake_engine:Fake", {{}}, python_path=[pathlib.Path({str(HERE)!r})])
            await host.start(timeout_s=20)
            print(host.pid, flush=True)
            await host.call("transcribe", b"stuck 60", timeout_s=60)
        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        time.sleep(0.1)
        parent.kill()
    deadline = time.monotonic() + 5
    while is_running(pid):
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.02)


def test_a_worker_imports_nothing_heavy() -> None:
    program = "import sys, famulus.engines.worker; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "dbus_fast", "numpy"} & set(modules)
