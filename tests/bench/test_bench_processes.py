import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from famulus.bench import procfs
from famulus.bench.processes import ManagedProcess
from famulus.core.errors import Failed, NotFound, TimedOut

ENV = {"PATH": os.environ["PATH"]}


def shell(script: str, **options: object) -> ManagedProcess:
    return ManagedProcess("the child", ["sh", "-c", script], env=ENV, **options)  # type: ignore[arg-type]


async def test_lines_of_both_streams_reach_the_handler_and_are_kept() -> None:
    lines: list[str] = []
    async with shell("echo out; echo err >&2", on_line=lines.append) as child:
        assert await child.wait(5) == 0
    assert sorted(lines) == sorted(child.tail().split()) == ["err", "out"]


async def test_missing_program_is_named() -> None:
    with pytest.raises(NotFound, match="no-such-program is not installed"):
        await ManagedProcess("the child", ["no-such-program"], env=ENV).start()


async def test_death_before_ready_fails_at_once_with_the_last_lines() -> None:
    async with shell("echo the reason >&2; exit 3") as child:
        with pytest.raises(Failed, match=r"ended before ready \(ended with code 3\)(.|\n)*the reason"):
            await child.wait_until(asyncio.Event(), "ready", 30)


async def test_silence_before_ready_ends_at_the_deadline() -> None:
    async with shell("exec sleep 60") as child:
        with pytest.raises(TimedOut, match=r"was not ready within 0\.1 s"):
            await child.wait_until(asyncio.Event(), "ready", 0.1)
    assert child.returncode == -signal.SIGTERM


async def test_wait_has_a_deadline() -> None:
    async with shell("exec sleep 60") as child:
        with pytest.raises(TimedOut, match=r"did not end within 0\.1 s"):
            await child.wait(0.1)


async def test_a_child_that_ignores_sigterm_is_killed() -> None:
    ready = asyncio.Event()
    child = ManagedProcess(
        "the child",
        [sys.executable, "-uc", "import signal,time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(60)"],
        env=ENV,
        on_line=lambda _: ready.set(),
    )
    await child.start()
    await child.wait_until(ready, "ready", 10)
    assert await child.stop(grace_s=0.2) == -signal.SIGKILL


async def test_stop_ends_grandchildren_too() -> None:
    ready = asyncio.Event()
    async with shell("sleep 60 & echo up; wait", on_line=lambda _: ready.set()) as child:
        await child.wait_until(ready, "ready", 10)
        (grandchild,) = await asyncio.to_thread(procfs.descendants, child.pid)
        await child.stop()
    async with asyncio.timeout(5):
        while await asyncio.to_thread(procfs.memory, grandchild) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_child_does_not_outlive_a_killed_parent() -> None:
    script = (
        "import asyncio\n"
        "from famulus.bench.processes import ManagedProcess\n"
        "async def main():\n"
        f"    child = ManagedProcess('the child', ['sleep', '60'], env={ENV!r})\n"
        "    await child.start()\n"
        "    print(child.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert await asyncio.to_thread(procfs.memory, child) is not None
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(5):
        while await asyncio.to_thread(procfs.memory, child) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_stop_twice_and_stop_before_start_are_harmless() -> None:
    assert await shell("true").stop() is None
    child = shell("exec sleep 60")
    await child.start()
    assert await child.stop() == -signal.SIGTERM
    assert await child.stop() == -signal.SIGTERM


async def test_an_error_inside_the_block_still_ends_the_child() -> None:
    with pytest.raises(ZeroDivisionError):
        async with shell("exec sleep 60") as child:
            raise ZeroDivisionError
    assert not child.running


def test_procfs_counts_this_process() -> None:
    memory = procfs.memory(os.getpid())
    used = procfs.usage(os.getpid())
    assert memory is not None and used is not None
    assert memory.rss > 5
    assert memory.uss is not None and memory.pss is not None
    assert 0 < memory.uss <= memory.pss <= memory.rss
    assert used.cpu_s > 0 and used.switches > 0
    assert "pytest" in procfs.command(os.getpid()) or Path(sys.executable).name in procfs.command(os.getpid())


def test_procfs_of_a_process_that_is_gone_is_none() -> None:
    gone = 2**22 + 1  # over the largest pid there is
    assert (procfs.memory(gone), procfs.usage(gone), procfs.command(gone)) == (None, None, "")
    assert procfs.descendants(gone) == []
