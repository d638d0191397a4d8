"""org.famulus.Agent1 over a real bus: what a caller gets, hears and is refused."""

from __future__ import annotations

import asyncio
import json

import pytest
from bus_rig import AGENT, NAME, PATH, connected, until
from dbus_fast import Message, MessageFlag, MessageType, Variant
from famulus.daemon.agent.run import Event

_PROPERTIES = "org.freedesktop.DBus.Properties"


async def test_ask_gives_the_reply_and_the_result(served, client):
    reply, result = await client.ask("good day", language=Variant("s", "en"), session=Variant("s", "kitchen"))
    assert reply == "good day"
    assert {key: variant.value for key, variant in result.items()} == {
        "run": "r1",
        "status": "done",
        "decided_by": "sentences",
        "error": "",
        "calls": "[]",
        "stages_ms": {"intent": 0.5},
    }
    utterance = served.agent.utterances[0]
    assert (utterance.source, utterance.language, utterance.session) == ("bus", "en", "kitchen")
    assert utterance.owner == client.bus.unique_name


async def test_the_signals_of_a_run_go_to_its_caller_alone(served, client):
    async with connected(served.address) as other:
        await other.call("Subscribe")
        await other.call("Unsubscribe")
        (run,) = await client.call("Start", "sa{sv}", "tokens 2", {})
        await until(lambda: "Finished" in client.names())
        assert [name for name, _ in client.signals] == ["Stage", "Token", "Token", "Finished"]
        assert client.signals[1][1] == [run, "0 "]
        _, status, result = client.signals[-1][1]
        assert (status, result["reply"].value) == ("done", "tokens 2")
        await other.call("Status")
        assert other.signals == []


async def test_a_stage_carries_no_words(client):
    await client.ask("my secret")
    ((_, (_, stage, details)), *_) = client.signals
    assert stage == "intent"
    assert {key: variant.value for key, variant in details.items()} == {"n": 1.0}


async def test_a_run_that_ends_before_start_returns_is_told_of(client):
    (run,) = await client.call("Start", "sa{sv}", "stop", {})
    await until(lambda: client.signals)
    assert client.signals[0][0] == "Finished"
    assert client.signals[0][1][0] == run
    assert (await client.error("Cancel", "s", run))[0] == "NotFound"


async def test_its_caller_cancels_a_run(served, client):
    (run,) = await client.call("Start", "sa{sv}", "wait", {})
    await client.call("Cancel", "s", run)
    await until(lambda: served.agent.cancelled == [run])
    await until(lambda: "Finished" in client.names())
    assert client.signals[-1][1][1] == "cancelled"
    assert (await client.error("Cancel", "s", run))[0] == "NotFound"


async def test_a_run_longer_than_its_timeout_is_cancelled(served, client):
    name, text = await client.error("Ask", "sa{sv}", "wait", {"timeout_s": Variant("d", 0.05)})
    assert name == "TimedOut"
    assert "0.05 s" in text
    await until(lambda: served.agent.open_runs == 0)
    await client.call("Start", "sa{sv}", "wait", {"timeout_s": Variant("d", 0.05)})
    await until(lambda: len(served.agent.cancelled) == 2)


async def test_busy_is_told_at_once(served, client):
    served.agent.queue = 1
    await client.call("Start", "sa{sv}", "wait", {})
    assert (await client.error("Start", "sa{sv}", "wait", {}))[0] == "Busy"
    assert (await client.error("Ask", "sa{sv}", "hello", {}))[0] == "Busy"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("turn\x07on", "control characters"),
        ("two\nlines", "control characters"),
        ("a" * 16385, "16 KB"),
        ("灯" * 6000, "16 KB"),
        ("impossible", "impossible"),
    ],
)
async def test_impossible_text_is_refused(client, text, told):
    for method in ("Ask", "Start"):
        name, message = await client.error(method, "sa{sv}", text, {})
        assert name == "InvalidArguments"
        assert told in message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"langage": Variant("s", "en")}, "did you mean language"),
        ({"x": Variant("s", "en")}, "the options are language, session, timeout_s"),
        ({"language": Variant("s", "eng")}, "did you mean en"),
        ({"language": Variant("i", 3)}, "string (s)"),
        ({"session": Variant("s", "x" * 65)}, "64"),
        ({"timeout_s": Variant("s", "3")}, "number (d)"),
        ({"timeout_s": Variant("b", True)}, "number (d)"),
        ({"timeout_s": Variant("d", float("nan"))}, "above 0"),
        ({"timeout_s": Variant("d", -1.0)}, "above 0"),
        ({"timeout_s": Variant("d", 601.0)}, "at most 600"),
    ],
)
async def test_a_wrong_option_is_refused_with_what_to_do(client, options, told):
    name, message = await client.error("Ask", "sa{sv}", "hello", options)
    assert name == "InvalidArguments"
    assert told in message


async def test_nothing_internal_leaks_from_an_unexpected_error(client):
    name, message = await client.error("Ask", "sa{sv}", "crash", {})
    assert name == "Failed"
    assert "secret" not in message
    assert "RuntimeError" not in message


async def test_a_wrong_signature_tells_the_right_one(client):
    name, message = await client.error("Ask", "s", "hello")
    assert name == "InvalidArguments"
    assert message == "Ask takes (s text, a{sv} options), not (s)."


async def test_unknown_members_get_the_standard_errors(client):
    assert await client.error("Aks", "s", "x") == ("UnknownMethod", "There is no method Aks; did you mean Ask?")
    assert (await client.error("Ask", interface="org.famulus.Agent2"))[0] == "UnknownInterface"
    reply = await client.bus.call(Message(NAME, "/elsewhere", AGENT, "Status"))
    assert reply.error_name == "org.freedesktop.DBus.Error.UnknownObject"


async def test_a_method_is_found_without_its_interface(client):
    assert (await client.raw("Status", interface=None)).message_type is MessageType.METHOD_RETURN


async def test_what_a_string_cannot_hold_is_replaced_on_the_way_out(client):
    reply, _ = await client.ask("nul")
    assert reply == "a\ufffdb\ufffdc"
    await client.call("Status")


async def test_a_call_that_wants_no_reply_gets_none(served, client):
    flags = MessageFlag.NO_REPLY_EXPECTED
    client.bus.send(Message(NAME, PATH, AGENT, "Ask", signature="sa{sv}", body=["hello", {}], flags=flags))
    client.bus.send(Message(NAME, PATH, AGENT, "Ask", signature="sa{sv}", body=["", {}], flags=flags))
    await until(lambda: "Finished" in client.names())
    assert len(served.agent.utterances) == 1


async def test_status_is_json(client):
    (text,) = await client.call("Status")
    assert json.loads(text) == {"state": "idle", "health": {"microphone": "ok"}}


async def test_properties_read_and_tell_their_changes(served, client):
    (values,) = await client.call("GetAll", "s", AGENT, interface=_PROPERTIES)
    assert {name: variant.value for name, variant in values.items()} == {
        "Version": "1.2.3",
        "State": "idle",
        "Mode": "local",
        "Scene": "",
        "Health": {"microphone": "ok"},
    }
    rule = f"type='signal',interface='{_PROPERTIES}'"
    await client.bus.call(
        Message(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus", "AddMatch"], signature="s", body=[rule])
    )
    served.voice.state = "listening"
    served.agent.publish(Event("state", data={"state": "listening"}))
    served.health["microphone"] = "mic_lost"
    served.service.refresh()
    served.service.refresh()
    await until(lambda: len(client.signals) == 2)
    assert [{k: v.value for k, v in body[1].items()} for _, body in client.signals] == [
        {"State": "listening"},
        {"Health": {"microphone": "mic_lost"}},
    ]
    assert (await client.call("Get", "ss", AGENT, "State", interface=_PROPERTIES))[0].value == "listening"


async def test_properties_cannot_be_written_or_guessed(client):
    assert (await client.error("Get", "ss", AGENT, "Nope", interface=_PROPERTIES))[0] == "UnknownProperty"
    assert (await client.error("GetAll", "s", "org.other", interface=_PROPERTIES))[0] == "UnknownInterface"
    value = Variant("s", "remote")
    assert (await client.error("Set", "ssv", AGENT, "Mode", value, interface=_PROPERTIES))[0] == "PropertyReadOnly"


async def test_push_to_talk_tells_its_caller_of_the_spoken_run(served, client):
    (run,) = await client.call("Listen", "a{sv}", {})
    served.agent.publish(Event("transcript", run, "", {"text": "open the curtain", "final": True}))
    data = {"run": run, "status": "done", "reply": "Done.", "calls": [], "voice_ms": {"listen": 900, "transcribe": 80}}
    served.agent.publish(Event("finished", run, "", data))
    await until(lambda: "Finished" in client.names())
    assert client.signals[0] == ("Transcript", [run, "open the curtain", True])
    assert client.signals[1][1][2]["voice_ms"].value == {"listen": 900.0, "transcribe": 80.0}
    served.voice.state = "listening"
    assert (await client.error("Listen", "a{sv}", {}))[0] == "Busy"
    assert (await client.error("Listen", "a{sv}", {"x": Variant("i", 1)}))[0] == "InvalidArguments"


async def test_a_subscriber_hears_the_device(served, client):
    await client.call("Subscribe")
    served.agent.publish(Event("wake", data={"keyword": "hey_jarvis", "score": 0.75}))
    served.service.timer_fired("t1", "the eggs")
    await until(lambda: len(client.signals) == 2)
    assert client.signals == [("WakeDetected", ["hey_jarvis", 0.75]), ("TimerFired", ["t1", "the eggs"])]
    await client.call("Unsubscribe")
    served.agent.publish(Event("wake", data={"keyword": "hey_jarvis", "score": 0.75}))
    await client.call("Status")
    assert len(client.signals) == 2
    assert (await client.error("Unsubscribe"))[0] == "NotFound"


async def test_a_timer_tells_the_app_that_set_it_while_it_is_there(served, client):
    await client.ask("set a timer")
    client.signals.clear()
    served.service.timer_fired("t1", "the eggs", client.bus.unique_name)
    served.service.timer_fired("t2", "of a bus before", ":1.4711")
    await until(lambda: client.signals)
    assert client.signals == [("TimerFired", ["t1", "the eggs"])]


async def test_stopping_answers_the_calls_that_are_open(served, client):
    task = asyncio.create_task(client.error("Ask", "sa{sv}", "wait", {}))
    await until(lambda: served.agent.open_runs == 1)
    await served.service.stop()
    assert (await task)[0] == "Cancelled"
    await until(lambda: served.agent.open_runs == 0)


async def test_calls_that_come_while_it_stops_are_refused(served, client):
    await served.service._server.close()
    assert (await client.error("Ask", "sa{sv}", "hello", {}))[0] == "Cancelled"
    assert served.agent.utterances == []
