"""The commands against a real agent on a real bus: what they print, where, and with which exit code."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from famulus.daemon.agent.run import Event


async def test_ask_prints_the_reply(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "what", "time", "is", "it")
    assert (done.code, done.out, done.err) == (0, "It is 2:05 PM.\n", "")


async def test_ask_reads_standard_input(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "-", stdin="现在\n几点\n".encode())
    assert (done.code, done.out) == (0, "现在是下午两点零五分。\n")


async def test_ask_tells_calls_and_stages_when_verbose(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "-v", "what time is it")
    reply, call, facts = done.out.splitlines()
    assert (reply, call) == ("It is 2:05 PM.", "  clock.time() ok")
    assert facts.startswith("  decided by sentences · intent ")


async def test_ask_gives_json(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "--json", "what time is it")
    assert done.code == 0
    assert {"text": "It is 2:05 PM.", "status": "done", "decided_by": "sentences"}.items() <= done.json.items()
    assert done.json["calls"][0]["method"] == "clock.time"


async def test_what_is_not_understood_has_a_code_of_its_own(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "colourless green ideas")
    assert (done.code, done.out, done.err) == (4, "", "famulus: I did not understand that.\n")


async def test_a_failed_call_is_told_on_stderr(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "break")
    assert (done.code, done.out, done.err) == (1, "", "famulus: The lamp has no bulb; put one in.\n")


async def test_the_language_may_be_forced(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "--language", "zh", "hello")
    assert (done.code, done.err) == (4, "famulus: 我没听懂。\n")


async def test_a_timeout_cancels_the_run(service: Any, famulus: Any) -> None:
    done = await famulus("ask", "--timeout", "0.3", "blink")
    assert done.code == 1
    assert "did not end within 0.3 s" in done.err
    await asyncio.wait_for(service.lamp.cancelled.wait(), 5)


@pytest.mark.parametrize(
    ("args", "stdin", "told"),
    [
        (("ask", ""), b"", "The text is empty"),
        (("ask", "  "), b"", "The text is empty"),
        (("ask", "x" * 17_000), b"", "17,000 bytes"),
        (("ask", b"caf\xe9"), b"", "U+DCE9"),
        (("ask", "\x1b[2J"), b"", "U+001B"),
        (("ask", "-"), b"", "The text is empty"),
        (("ask", "-"), b"a\0b", "U+0000"),
        (("ask", "-"), b"caf\xe9", "not UTF-8"),
        (("ask", "-"), b"x" * 17_000, "over 16,384 bytes"),
    ],
    ids=["empty", "blank", "long", "bad argv", "escape", "no input", "nul", "not utf-8", "long input"],
)
async def test_an_impossible_text_is_refused_before_anything_is_sent(
    famulus: Any, args: tuple[str | bytes, ...], stdin: bytes, told: str
) -> None:
    done = await famulus(*args, stdin=stdin)  # on a bus without famulus: that would be code 3
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", ["ask hello", "listen", "status", "watch", "capabilities"])
async def test_without_a_service_one_line_says_what_to_do(famulus: Any, command: str) -> None:
    done = await famulus(*command.split())
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "famulus: org.famulus.Agent does not answer on this bus; "
        "start the service with systemctl start famulus, or name its bus with --bus.\n"
    )


async def test_without_a_bus_it_is_the_same(famulus: Any) -> None:
    done = await famulus("status", "--bus", "unix:path=/nowhere/bus", "--json")
    assert done.code == 3
    assert done.json["error"]["code"] == "failed"
    assert "--bus" in done.json["error"]["message"]
    assert (await famulus("status", "--bus", "nonsense")).code == 2


async def test_status_shows_all_parts(service: Any, famulus: Any) -> None:
    done = await famulus("status")
    assert done.code == 0
    assert done.out.splitlines() == [
        "famulus 1.2.3 · idle · mode local · up 3 h 5 min · 55.5 MB",
        "  microphone  ok",
        "  llm         ready  180 MB · unloads in 4 min 10 s",
        "  capabilities: clock (2), lamp (2)",
    ]
    assert (await famulus("status", "--json")).json["memory_mb"] == 55.5


async def test_capabilities_lists_commands(service: Any, famulus: Any) -> None:
    done = await famulus("capabilities", "clock")
    assert done.code == 0
    assert done.out.splitlines()[:2] == ["clock  Time and date", "  clock.time()  Say what time it is now"]
    listed = (await famulus("capabilities", "--json")).json
    assert [capability["name"] for capability in listed] == ["clock", "lamp"]
    assert (await famulus("capabilities", "radio")).code == 1


async def test_listen_prints_transcript_and_reply(service: Any, famulus: Any) -> None:
    done = await famulus("listen")
    assert (done.code, done.out) == (0, "> what time is it\nIt is 2:05 PM.\n")
    assert "Listening" in done.err


async def test_listen_tells_what_was_not_understood(service: Any, famulus: Any) -> None:
    service.ear.words = "mumble"
    done = await famulus("listen", "--json")
    assert (done.code, done.json["status"]) == (4, "not_understood")


async def test_interrupting_ask_cancels_the_run(service: Any, launch: Any) -> None:
    running = await launch("ask", "blink")
    await asyncio.wait_for(service.lamp.blinking.wait(), 20)
    running.interrupt()
    done = await running.end()
    assert (done.code, done.out, done.err) == (130, "", "")
    await asyncio.wait_for(service.lamp.cancelled.wait(), 5)


async def test_watch_prints_a_line_for_each_event_until_interrupted(service: Any, launch: Any) -> None:
    running = await launch("watch")
    assert "Watching" in await running.line("stderr")
    service.agent.publish(Event("wake", data={"keyword": "hey_jarvis", "score": 0.98}))
    assert (await running.line())[9:] == "wake       hey_jarvis 0.98"
    service.agent.publish(Event("transcript", "r1", "", {"text": "a\x1b[31m\nb", "final": True}))
    assert (await running.line())[9:] == "transcript r1 a?[31m b"
    running.interrupt()
    done = await running.end()
    assert (done.code, done.out, done.err) == (0, "", "")


async def test_watch_gives_json_lines(service: Any, launch: Any, famulus: Any) -> None:
    running = await launch("watch", "--json")
    await running.line("stderr")
    await famulus("ask", "what time is it")
    kinds = []
    while "finished" not in kinds:
        kinds.append(json.loads(await running.line())["kind"])
    assert kinds[0] == "stage"


async def test_watch_ends_when_famulus_goes(service: Any, launch: Any) -> None:
    running = await launch("watch")
    await running.line("stderr")
    await service.bus.stop()
    done = await running.end()
    assert (done.code, done.err) == (3, "famulus: famulus has left the bus; try again when it is back.\n")
