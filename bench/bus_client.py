"""One client of the ``bus`` suite, in a process of its own: told on standard input what to do, answers with JSON.

Each line is ``ask N``, ``paced N`` or ``start N``; the answer holds milliseconds of each call and seconds of all.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

from ..client.agent import Agent, connect
from ..core.errors import Busy, Failed

SENTENCE = "what time is it"
PACE_PER_S = 10
_OPEN = 4


async def _main(address: str) -> None:
    async with connect(address) as agent:
        await _ask(agent, 5)  # warm-up: imports, caches of names
        print(json.dumps({"ready": True}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, _, count = line.partition(" ")
            work = {"ask": _ask, "paced": _paced, "start": _start}[what]
            begin = time.monotonic()
            milliseconds, refused = await work(agent, int(count))
            answer = {"ms": milliseconds, "seconds": time.monotonic() - begin, "refused": refused}
            print(json.dumps(answer), flush=True)


async def _ask(agent: Agent, count: int) -> tuple[list[float], int]:
    """One after the other, as an app does."""
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        reply = await agent.ask(SENTENCE)
        taken.append(round((time.perf_counter() - begin) * 1000, 4))
        if reply.decided_by != "sentences":
            raise Failed(f"{SENTENCE!r} was to be decided by sentences, not by {reply.decided_by!r}.")
    return taken, 0


async def _paced(agent: Agent, count: int) -> tuple[list[float], int]:
    """At a pace that leaves the daemon idle in between; the phase of each client is its own."""
    loop = asyncio.get_running_loop()
    due = loop.time() + random.random() / PACE_PER_S
    taken = []
    for _ in range(count):
        await asyncio.sleep(max(0.0, due - loop.time()))
        taken += (await _ask(agent, 1))[0]
        due += 1 / PACE_PER_S
    return taken, 0


async def _start(agent: Agent, count: int) -> tuple[list[float], int]:
    """A few at a time, nobody waiting for their ends; a full queue's refusals are counted."""
    taken: list[float] = []
    refused = 0
    left = iter(range(count))

    async def begin_runs() -> None:
        nonlocal refused
        for _ in left:
            begin = time.perf_counter()
            try:
                await agent.start(SENTENCE)
            except Busy:
                refused += 1
            taken.append(round((time.perf_counter() - begin) * 1000, 4))

    await asyncio.gather(*(begin_runs() for _ in range(_OPEN)))
    return taken, refused


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
