"""What a program asked for ends with it."""

from __future__ import annotations

import json
import signal

import pytest
from bus_rig import AGENT, CAPABILITIES, connected, line_of, program, until
from famulus.daemon.agent.run import Event

_CALLER = """
import asyncio, sys
from famulus.client import connect
async def main():
    async with connect(sys.argv[1]) as agent:
        run = await agent.start("wait")
        asking = asyncio.create_task(agent.ask("wait too"))
        print(run)
        await asking
asyncio.run(main())
"""

_APP = """
import sys
from famulus.client import App
app = App("lamp")
@app.command("lamp.on", "Turn the lamp on")
def on() -> str:
    return "On."
import asyncio
asyncio.run(app.run(sys.argv[1]))
"""

MANIFEST = json.dumps({"name": "lamp", "commands": [{"name": "lamp.on", "description": "Turn the lamp on"}]})


async def test_a_killed_callers_runs_are_cancelled_and_nobody_elses(served, client):
    (own,) = await client.call("Start", "sa{sv}", "wait", {})
    async with program(_CALLER, served.address) as caller:
        await line_of(caller)
        await until(lambda: served.agent.open_runs == 3)
        caller.send_signal(signal.SIGKILL)
        await until(lambda: served.agent.open_runs == 1, 1)
    assert own not in served.agent.cancelled


async def test_a_killed_apps_commands_are_gone_within_a_second(served):
    async with program(_APP, served.address) as app:
        await until(served.registry.commands)
        app.send_signal(signal.SIGKILL)
        await until(lambda: not served.registry.commands(), 1)
    assert served.registry.capabilities() == ()


async def test_subscriptions_and_spoken_runs_end_with_their_caller(served, client):
    async with connected(served.address) as leaving:
        await leaving.call("Subscribe")
        await leaving.call("Listen", "a{sv}", {})
        name = leaving.bus.unique_name
        await leaving.call("Register", "so", MANIFEST, "/app", interface=CAPABILITIES)
    await until(lambda: not served.registry.commands(), 1)
    await client.call("Subscribe")
    served.agent.publish(Event("transcript", "voice-1", "", {"text": "hello", "final": True}))
    await until(lambda: client.signals)
    assert name not in served.service._agent1._signals._privileged


async def test_calls_of_a_vanished_caller_never_begin_late(served):
    """The call and the end of its sender may be read in one go."""
    for _ in range(20):
        async with connected(served.address) as leaving:
            leaving.bus.send(_start(leaving))
    await until(lambda: len(served.agent.cancelled) == len(served.agent.utterances) and not served.agent.open_runs)


def _start(client):
    from bus_rig import NAME, PATH
    from dbus_fast import Message

    return Message(NAME, PATH, AGENT, "Start", signature="sa{sv}", body=["wait", {}])


@pytest.mark.parametrize("rounds", [3])
async def test_names_do_not_pile_up(served, rounds):
    for _ in range(rounds):
        async with connected(served.address) as leaving:
            await leaving.call("Subscribe")
    await until(lambda: not served.service._identities._known)
