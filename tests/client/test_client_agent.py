"""famulus.client.connect: ask, follow, cancel, listen, over a real bus."""

from __future__ import annotations

import asyncio

import pytest
from bus_rig import until
from famulus.client import connect
from famulus.core.errors import Busy, Failed, InvalidArguments, NotFound, TimedOut
from famulus.daemon.agent.run import Event


@pytest.fixture
async def agent(served):
    async with connect(served.address) as agent:
        yield agent


async def test_ask_gives_a_reply(agent):
    reply = await agent.ask("good day", language="en", session="s", timeout_s=5)
    assert (reply.text, reply.status, reply.ok, reply.calls) == ("good day", "done", True, [])
    assert reply.stages_ms == {"intent": 0.5}


async def test_stream_yields_everything_up_to_the_end(agent):
    events = [event async for event in agent.stream("tokens 1000")]
    assert [event.kind for event in events] == ["stage", *["token"] * 1000, "finished"]
    assert "".join(event.text for event in events[1:-1]) == "".join(f"{n} " for n in range(1000))
    assert events[-1].reply is not None
    assert events[-1].text == "tokens 1000"


async def test_a_run_that_ends_at_once_is_streamed_too(agent):
    assert [event.text async for event in agent.stream("stop")] == ["Stopped."]


async def test_leaving_a_stream_cancels_its_run(served, agent):
    stream = agent.stream("wait")
    async for _ in stream:
        break
    await stream.aclose()
    await until(lambda: served.agent.cancelled)
    assert agent._queues == []


async def test_cancel_and_its_errors(served, agent):
    run = await agent.start("wait")
    await agent.cancel(run)
    await until(lambda: served.agent.cancelled == [run])
    with pytest.raises(NotFound):
        await agent.cancel(run)


async def test_errors_keep_their_class(served, agent):
    with pytest.raises(InvalidArguments, match="empty"):
        await agent.ask("")
    with pytest.raises(InvalidArguments, match="cannot be sent"):
        await agent.ask("a\0b")
    with pytest.raises(TimedOut):
        await agent.ask("wait", timeout_s=0.05)
    served.agent.queue = 0
    with pytest.raises(Busy):
        await agent.ask("hello")


async def test_a_thousand_asks_at_once_stay_within_the_buss_limits(served, agent):
    served.agent.queue = 10_000
    replies = await asyncio.gather(*(agent.ask(f"number {number}") for number in range(1000)))
    assert [reply.text for reply in replies] == [f"number {number}" for number in range(1000)]


async def test_subscribers_hear_the_device(served, agent):
    async with agent.subscribe() as events, agent.subscribe() as more:
        served.agent.publish(Event("wake", data={"keyword": "hey_jarvis", "score": 0.5}))
        served.service.timer_fired("t1", "eggs")
        for each in (events, more):
            wake, timer = await anext(each), await anext(each)
            assert (wake.kind, wake.data) == ("wake", {"keyword": "hey_jarvis", "score": 0.5})
            assert (timer.kind, timer.data) == ("timer", {"id": "t1", "label": "eggs"})
    with pytest.raises(NotFound):
        await agent._call("org.famulus.Agent1", "Unsubscribe", "", [])


async def test_listen_capabilities_status_and_properties(served, agent):
    assert await agent.listen() == "voice-1"
    assert await agent.capabilities() == []
    assert (await agent.status())["state"] == "idle"
    assert (await agent.properties())["Version"] == "1.2.3"


async def test_a_service_that_goes_ends_the_waiting(served, agent):
    async with agent.subscribe() as events:
        waiting = asyncio.ensure_future(anext(events))
        await served.service.stop()
        with pytest.raises(Failed, match="left the bus"):
            await waiting
    with pytest.raises(NotFound, match="start it first"):
        await agent.ask("hello")


async def test_a_bus_that_goes_ends_the_waiting(served, agent, private_daemon):
    asking = asyncio.create_task(agent.ask("wait"))
    async with agent.subscribe() as events:
        private_daemon.stop()
        with pytest.raises(Failed, match="left the bus"):
            async for event in events:
                assert event.kind == "stage"
        with pytest.raises(Failed, match="connect again"):
            await asking
    with pytest.raises(Failed, match="connect again"):
        await agent.ask("hello")


async def test_signals_of_strangers_are_not_believed(served, agent, client):
    from dbus_fast import Message

    async with agent.subscribe() as events:
        forged = Message.new_signal("/org/famulus/Agent", "org.famulus.Agent1", "Token", "ss", ["r1", "forged"])
        forged.destination = agent._bus.unique_name
        client.bus.send(forged)
        await client.call("Status")
        served.agent.publish(Event("wake", data={"keyword": "k", "score": 1}))
        assert (await anext(events)).kind == "wake"


async def test_without_a_bus_the_error_says_what_to_do(tmp_path):
    with pytest.raises(Failed, match="start it or set another address"):
        async with connect(f"unix:path={tmp_path / 'none'}"):
            pass
    with pytest.raises(Failed, match="none"):
        async with connect("none"):
            pass


async def test_a_service_that_starts_later_is_found(private_daemon):
    from bus_rig import Served

    async with connect(private_daemon.address) as agent:
        with pytest.raises(NotFound):
            await agent.status()
        served = Served(private_daemon)
        await served.service.start()
        assert [event.kind async for event in agent.stream("tokens 1")] == ["stage", "token", "finished"]
        await served.service.stop()
