"""org.famulus.Capabilities1 and the provider behind it, with a real app on a real bus."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from bus_rig import CAPABILITIES, connected, until
from dbus_fast import Message, MessageType, Variant
from famulus.capabilities.command import Call, Capability, Command, Outcome
from famulus.capabilities.provider import CallContext
from famulus.core.errors import NotFound
from famulus.daemon.bus.capabilities1 import MAX_PER_CONNECTION

CONTEXT = CallContext("c1", "r1", "zh", "voice", "kitchen")
PROVIDER = "org.famulus.Provider1"


def manifest(name: str = "lamp", **more: object) -> str:
    command = {"name": f"{name}.on", "description": "Turn it on", "timeout_s": 0.5}
    return json.dumps({"name": name, "commands": [command], **more})


class RawApp:
    """An app without famulus.client, which answers Invoke as the test wants."""

    def __init__(self, client) -> None:
        self.client = client
        self.calls: list[Message] = []
        self.answer = lambda message: Message.new_method_return(message, "s", ['{"say": "On."}'])
        client.bus.add_message_handler(self._handle)

    def _handle(self, message):
        if message.message_type is not MessageType.METHOD_CALL or message.interface != PROVIDER:
            return None
        self.calls.append(message)
        return self.answer(message) or True

    async def register(self, text: str | None = None, path: str = "/app") -> None:
        await self.client.call("Register", "so", text or manifest(), path, interface=CAPABILITIES)


@asynccontextmanager
async def raw_app(address: str):
    async with connected(address) as client:
        yield RawApp(client)


@pytest.fixture
async def app(served):
    async with raw_app(served.address) as app:
        yield app


async def invoke(served) -> Outcome:
    return await served.registry.invoke(Call(method="lamp.on", args={}), CONTEXT)


async def test_a_registered_command_reaches_its_app_with_its_context(served, app):
    await app.register()
    assert await invoke(served) == Outcome(say="On.")
    (message,) = app.calls
    command, args, context = message.body
    assert (message.path, command, json.loads(args)) == ("/app", "lamp.on", {})
    assert {key: variant.value for key, variant in context.items()} == {
        "call": "c1",
        "run": "r1",
        "language": "zh",
        "source": "voice",
        "session": "kitchen",
    }


async def test_list_tells_what_is_there(served, app, client):
    await app.register()
    await app.register(manifest("fan"))
    (text,) = await client.call("List", "a{sv}", {}, interface=CAPABILITIES)
    assert [capability["name"] for capability in json.loads(text)] == ["lamp", "fan"]
    (text,) = await client.call("List", "a{sv}", {"name": Variant("s", "fan")}, interface=CAPABILITIES)
    assert [capability["commands"][0]["name"] for capability in json.loads(text)] == ["fan.on"]
    assert (await client.error("List", "a{sv}", {"nmae": Variant("s", "x")}, interface=CAPABILITIES))[0] == (
        "InvalidArguments"
    )


async def test_changed_counts_up(served, app, client):
    rule = f"type='signal',interface='{CAPABILITIES}'"
    await client.bus.call(
        Message(*["org.freedesktop.DBus", "/", "org.freedesktop.DBus", "AddMatch"], signature="s", body=[rule])
    )
    await app.register()
    await app.client.call("Unregister", "s", "lamp", interface=CAPABILITIES)
    await until(lambda: len(client.signals) == 2)
    assert client.signals == [("Changed", [1]), ("Changed", [2])]


async def test_its_app_replaces_and_withdraws_a_capability(served, app):
    await app.register()
    await app.register(manifest(version="2"))
    assert served.registry.capabilities()[0].version == "2"
    await app.register(manifest(version="3"), "/elsewhere")
    await invoke(served)
    assert app.calls[0].path == "/elsewhere"
    await app.client.call("Unregister", "s", "lamp", interface=CAPABILITIES)
    assert served.registry.capabilities() == ()
    assert (await app.client.error("Unregister", "s", "lamp", interface=CAPABILITIES))[0] == "NotFound"


async def test_a_name_that_is_taken_is_denied(served, app, client):
    await app.register()
    name, text = await client.error("Register", "so", manifest(), "/x", interface=CAPABILITIES)
    assert (name, "Another app offers lamp" in text) == ("Denied", True)
    assert (await client.error("Unregister", "s", "lamp", interface=CAPABILITIES))[0] == "NotFound"

    class BuiltIn:
        async def invoke(self, command, args, context):
            return Outcome()

        async def cancel(self, call_id):
            pass

    timer = Capability(name="timer", commands=(Command(name="timer.set", description="Set"),))
    served.registry.register(timer, BuiltIn())
    name, text = await client.error("Register", "so", manifest("timer"), "/x", interface=CAPABILITIES)
    assert (name, "famulus itself" in text) == ("Denied", True)
    assert (await client.error("Unregister", "s", "timer", interface=CAPABILITIES))[0] == "NotFound"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"name": "Lamp!"}', '{"name": "lamp", "commands": []}', "x" * 300_000]
)
async def test_a_bad_manifest_is_refused(served, client, text):
    assert (await client.error("Register", "so", text, "/x", interface=CAPABILITIES))[0] == "InvalidArguments"
    assert served.registry.capabilities() == ()


async def test_one_connection_offers_a_bounded_number(served, app):
    for number in range(MAX_PER_CONNECTION):
        await app.register(manifest(f"lamp{number}"))
    one_more = manifest("lamp99")
    assert (await app.client.error("Register", "so", one_more, "/x", interface=CAPABILITIES))[0] == "Busy"
    await app.register(manifest("lamp0", version="2"))


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        ("no json", "failed", "no valid outcome"),
        ('{"surprise": 1}', "failed", "no valid outcome"),
        ("[" * 100_000, "failed", "no valid outcome"),
        (json.dumps({"data": "x" * 300_000}), "failed", "256 KB"),
        ('{"error": {"code": "denied", "message": "The door is open."}}', "denied", "The door is open."),
    ],
)
async def test_what_an_app_answers_is_checked(served, app, answer, code, told):
    await app.register()
    app.answer = lambda message: Message.new_method_return(message, "s", [answer])
    error = (await invoke(served)).error
    assert error is not None
    assert error.code == code
    assert told in error.message


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("org.famulus.Error.Busy", "busy", "/home/someone"),
        ("org.example.Secret", "failed", "failed inside its app"),
        ("org.freedesktop.DBus.Error.UnknownMethod", "not_found", "does not serve"),
        ("org.freedesktop.DBus.Error.UnknownObject", "not_found", "does not serve"),
    ],
)
async def test_an_error_reply_becomes_the_outcomes_error(served, app, name, code, told):
    await app.register()
    app.answer = lambda message: Message.new_error(message, name, "/home/someone/lamp.py, line 3")
    error = (await invoke(served)).error
    assert error is not None
    assert error.code == code
    assert told in error.message
    assert (code == "busy") == ("someone" in error.message), "only an error made for people is passed on"


async def test_an_answer_of_another_signature_is_refused(served, app):
    await app.register()
    app.answer = Message.new_method_return
    error = (await invoke(served)).error
    assert error is not None
    assert "one JSON string" in error.message


async def test_a_call_that_runs_too_long_is_cancelled_at_its_app(served, app):
    await app.register()
    app.answer = lambda message: None
    error = (await invoke(served)).error
    assert error is not None
    assert error.code == "timed_out"
    await until(lambda: len(app.calls) == 2)
    assert (app.calls[1].member, app.calls[1].body) == ("CancelCall", ["c1"])


async def test_an_app_that_dies_during_a_call_is_told_as_gone(served):
    async with raw_app(served.address) as leaving:
        await leaving.register()
        leaving.answer = lambda message: None
        running = asyncio.create_task(invoke(served))
        await until(lambda: leaving.calls)
        leaving.client.bus.disconnect()
        error = (await running).error
    assert error is not None
    assert error.code == "not_found"
    assert error.message == "lamp.on cannot run: its app has gone; start it again."


async def test_a_provider_without_its_app_or_bus_says_so(served):
    async with raw_app(served.address) as leaving:
        await leaving.register()
        provider = served.service._capabilities1._apps["lamp"]
    await until(lambda: not served.registry.commands())
    outcome = await provider.invoke("lamp.on", {}, CONTEXT)
    assert outcome.error is not None
    assert "has gone" in outcome.error.message
    await served.service.stop()
    outcome = await provider.invoke("lamp.on", {"text": "\ud800\0"}, CONTEXT)
    assert outcome.error is not None
    assert "has gone" in outcome.error.message
    await provider.cancel("c1")


async def test_arguments_that_no_string_can_hold_arrive_escaped(served, app):
    await app.register()
    provider = served.service._capabilities1._apps["lamp"]
    await provider.invoke("lamp.on", {"text": "a\0\ud800灯"}, CONTEXT)
    assert json.loads(app.calls[0].body[1]) == {"text": "a\0\ud800灯"}


async def test_a_withdrawn_command_is_named_as_such(served, app):
    await app.register()
    await app.client.call("Unregister", "s", "lamp", interface=CAPABILITIES)
    with pytest.raises(NotFound, match="not running"):
        served.registry.find("lamp.on")
