"""Too much at once: nothing is lost, nobody is thrown off the bus."""

from __future__ import annotations

import asyncio

import pytest
from bus_rig import AGENT, NAME, PATH, line_of, program, until
from dbus_fast import Message, MessageType
from famulus.client.connection import open_bus

_FLOOD = """
import asyncio, contextlib, logging, sys
from dbus_fast import Message
from dbus_fast.aio import MessageBus
logging.disable()
NAME, PATH, AGENT = "org.famulus.Agent", "/org/famulus/Agent", "org.famulus.Agent1"
async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    for _ in range(5000):
        with contextlib.suppress(OSError):
            bus.send(Message(NAME, PATH, AGENT, "Ask", signature="sa{sv}", body=["wait", {}]))
    await asyncio.sleep(0.5)
    print("flooded")
asyncio.run(main())
"""


async def test_a_stream_of_tokens_in_one_turn_of_the_loop_arrives_whole(client):
    await client.ask("tokens 2000")
    tokens = [body[1] for name, body in client.signals if name == "Token"]
    assert tokens == [f"{number} " for number in range(2000)]


@pytest.mark.parametrize("private_daemon", [128, 50_000], indirect=True)
async def test_five_thousand_calls_at_once_are_all_answered(served, client):
    def call(member, signature="", *body):
        return client.bus.call(Message(NAME, PATH, AGENT, member, signature=signature, body=list(body)))

    asked = [call("Ask", "sa{sv}", f"number {number}", {}) for number in range(2500)]
    replies = await asyncio.gather(*asked, *(call("Status") for _ in range(2500)))
    names = {reply.error_name for reply in replies if reply.message_type is MessageType.ERROR}
    assert names <= {"org.famulus.Error.Busy", "org.freedesktop.DBus.Error.LimitsExceeded"}
    assert len(replies) == 5000
    assert (await client.ask("still here"))[0] == "still here"
    assert served.service.connected


async def test_a_caller_that_floods_and_falls_off_the_bus_does_no_harm(served, client):
    """dbus-fast's own writer gives its connection up at the first full socket."""
    async with program(_FLOOD, served.address) as flood:
        assert await line_of(flood) == "flooded"
    await until(lambda: served.agent.open_runs == 0)
    assert (await client.ask("still here"))[0] == "still here"


async def test_messages_to_a_closed_connection_are_dropped(private_daemon):
    bus = await open_bus(private_daemon.address)
    other = await open_bus(private_daemon.address)
    bus.disconnect()
    await bus.wait_for_disconnect()
    again = await open_bus(private_daemon.address)  # most likely on the descriptor that has just been closed
    sent = bus.send(Message.new_signal("/x", "org.x.Y", "Z"))
    assert sent.cancelled()
    reply = await asyncio.wait_for(
        again.call(Message(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus", "GetId"])), 5
    )
    assert reply.message_type is MessageType.METHOD_RETURN
    for each in (other, again):
        each.disconnect()
