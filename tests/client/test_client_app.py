"""famulus.client.App: functions as commands, over a real bus with the real registry."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from bus_rig import NAME, Served, connected, line_of, until
from famulus.capabilities.command import Call, Outcome
from famulus.capabilities.provider import CallContext
from famulus.capabilities.registry import Registry
from famulus.client import App, Say, connect
from famulus.core.errors import Denied, InvalidArguments
from famulus.daemon.agent.agent import Agent
from famulus.daemon.agent.understand import Understander
from famulus.daemon.bus.service import BusService

CONTEXT = CallContext("c1", "r1")
LAMP = Path(__file__).parents[2] / "examples" / "lamp.py"


def make_app() -> App:
    app = App("test", description="For tests")
    app.stopped = []  # type: ignore[attr-defined]

    @app.command("test.say", sentences={"en": ["say it"]}, examples=["speak", ("说吧", {})])
    def say() -> str:
        """Say something.

        More that nobody needs to know.
        """
        return "Said."

    @app.command("test.data", "Give data")
    async def data(a: int, b: str | None = None) -> dict[str, object]:
        return {"a": a, "b": b}

    @app.command("test.both", "Give both")
    def both() -> Say:
        return Say("It is 21 degrees.", {"celsius": 21})

    @app.command("test.nothing", "Give nothing")
    def nothing() -> None: ...

    @app.command("test.denied", "Refuse")
    def denied() -> None:
        raise Denied("The door is open: close it first.")

    @app.command("test.crash", "Crash")
    def crash() -> None:
        raise RuntimeError("secret")

    @app.command("test.iterate", "End an iterator")
    def iterate() -> None:
        raise StopIteration

    @app.command("test.odd", "Give no JSON")
    def odd() -> object:
        return object()

    @app.command("test.large", "Give too much")
    def large() -> str:
        return "x"

    @app.command("test.wait", "Wait", timeout_s=0.3)
    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            app.stopped.append("wait")  # type: ignore[attr-defined]
            raise

    @app.command("test.block", "Block", timeout_s=0.3)
    def block() -> None:
        time.sleep(1.5)

    return app


@asynccontextmanager
async def running(app: App, address: str):
    task = asyncio.create_task(app.run(address))
    try:
        yield task
    finally:
        app.stop()
        await asyncio.wait_for(task, 10)


@pytest.fixture
async def app(served):
    app = make_app()
    async with running(app, served.address):
        await until(served.registry.commands)
        yield app


async def invoke(served, method: str, **args: object) -> Outcome:
    return await served.registry.invoke(Call(method=method, args=args), CONTEXT)


async def test_results_become_outcomes(served, app):
    assert await invoke(served, "test.say") == Outcome(say="Said.")
    assert await invoke(served, "test.data", a=1) == Outcome(data={"a": 1, "b": None})
    assert await invoke(served, "test.both") == Outcome(say="It is 21 degrees.", data={"celsius": 21})
    assert await invoke(served, "test.nothing") == Outcome()


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("test.denied", "denied", "The door is open: close it first."),
        ("test.crash", "failed", "test.crash failed inside its app; the app's log tells why."),
        ("test.iterate", "failed", "test.iterate failed inside its app; the app's log tells why."),
        ("test.odd", "failed", "test.odd gave a result that cannot be sent; its app should return JSON values."),
    ],
)
async def test_exceptions_become_plain_sentences(served, app, method, code, message):
    error = (await invoke(served, method)).error
    assert error is not None
    assert (error.code, error.message) == (code, message)


async def test_a_result_that_is_too_large_is_refused_by_the_app_itself(served):
    app = App("big")

    @app.command("big.one", "Give too much")
    def one() -> list[str]:
        return ["x" * 300_000]

    async with running(app, served.address):
        await until(served.registry.commands)
        error = (await invoke(served, "big.one")).error
        assert error is not None
        assert "256 KB" in error.message


async def test_a_cancelled_call_stops_in_the_app(served, app):
    error = (await invoke(served, "test.wait")).error
    assert error is not None
    assert error.code == "timed_out"
    await until(lambda: app.stopped == ["wait"])
    assert app._calls == {}


async def test_a_function_that_blocks_holds_up_nothing(served, app):
    blocked = asyncio.create_task(invoke(served, "test.block"))
    assert await asyncio.wait_for(invoke(served, "test.say"), 1) == Outcome(say="Said.")
    error = (await blocked).error
    assert error is not None
    assert error.code == "timed_out"


async def test_only_famulus_may_invoke(served, app):
    from dbus_fast import Message

    async with connected(served.address) as stranger:
        provider = served.service._capabilities1._apps["test"]
        call = Message(provider.app, provider.path, "org.famulus.Provider1", "Invoke", signature="ssa{sv}")
        call.body = ["test.say", "{}", {}]
        reply = await stranger.bus.call(call)
        assert reply.error_name == "org.freedesktop.DBus.Error.AccessDenied"


async def test_the_manifest_tells_all(served, app):
    (capability,) = served.registry.capabilities()
    say = capability.commands[0]
    assert (capability.name, capability.description) == ("test", "For tests")
    assert (say.name, say.description, say.sentences["en"][0].text) == ("test.say", "Say something.", "say it")
    assert [example.language for example in say.examples] == ["en", "zh"]


async def test_stopping_unregisters(served):
    app = make_app()
    async with running(app, served.address):
        await until(served.registry.commands)
    assert served.registry.commands() == ()


async def test_an_app_waits_for_the_bus_and_for_famulus(private_daemon, caplog):
    private_daemon.stop()
    app = make_app()
    async with running(app, private_daemon.address):
        await until(lambda: "Waiting for it." in caplog.text)
        private_daemon.start()
        await until(lambda: "famulus is not running" in caplog.text, 10)
        served = Served(private_daemon)
        await served.service.start()
        await until(served.registry.commands)
        await served.service.stop()


async def test_an_app_registers_again_when_famulus_or_the_bus_restarts(served, private_daemon, app):
    await served.service.stop()
    second = Served(private_daemon)
    await second.service.start()
    await until(second.registry.commands)
    assert await invoke(second, "test.say") == Outcome(say="Said.")
    private_daemon.stop()
    await until(lambda: not second.registry.commands())
    private_daemon.start()
    await until(second.registry.commands, 15)
    assert await invoke(second, "test.say") == Outcome(say="Said.")
    await second.service.stop()


async def test_an_app_stops_while_there_is_no_bus(tmp_path):
    app = make_app()
    async with running(app, f"unix:path={tmp_path / 'none'}"):
        await asyncio.sleep(0.05)


async def test_a_refused_manifest_ends_the_app_with_the_reason(served):
    app = App("Not a name")
    app.command("x.y", "Something")(lambda: None)
    with pytest.raises(InvalidArguments, match="name"):
        await asyncio.wait_for(app.run(served.address), 10)
    first, second = make_app(), make_app()
    async with running(first, served.address):
        await until(served.registry.commands)
        with pytest.raises(Denied, match="Another app"):
            await asyncio.wait_for(second.run(served.address), 10)


def test_a_command_needs_a_description_and_a_name_of_its_own():
    app = App("x")
    with pytest.raises(InvalidArguments, match="description"):
        app.command("x.y")(lambda: None)
    app.command("x.y", "Something")(lambda: None)
    with pytest.raises(InvalidArguments, match="twice"):
        app.command("x.y", "Something")(lambda: None)


@asynccontextmanager
async def lamp(address: str):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(LAMP), "--bus", address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(process.wait(), 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_example_serves_and_ends_cleanly_on_a_signal(served, number):
    async with lamp(served.address) as process:
        await until(served.registry.commands, 10)
        assert (await invoke(served, "light.on", room="kitchen")).say == "The light is on."
        assert json.loads(await line_of(process)) == {"light": "on", "room": "kitchen"}
        await invoke(served, "volume.set", percent=30)
        assert json.loads(await line_of(process)) == {"volume": 30}
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), 5) == 0
        assert process.stderr is not None
        assert b"Traceback" not in await process.stderr.read()
    assert served.registry.commands() == ()


SENTENCES = {
    "turn on the kitchen light": ("light.on", {"room": "kitchen"}),
    "turn on the light in the living room": ("light.on", {"room": "living room"}),
    "turn off the lamp": ("light.off", {"room": "all"}),
    "all the lights off": ("light.off", {"room": "all"}),
    "dim the lights to 20%": ("light.brightness", {"percent": 20}),
    "open the curtain": ("curtain.open", {}),
    "shut the blinds": ("curtain.close", {}),
    "set the volume to thirty percent": ("volume.set", {"percent": 30}),
    "Set the volume to 30%.": ("volume.set", {"percent": 30}),
    "打开客厅的灯": ("light.on", {"room": "living room"}),
    "把所有的灯关掉": ("light.off", {"room": "all"}),
    "亮度调到五十": ("light.brightness", {"percent": 50}),
    "拉上窗帘": ("curtain.close", {}),
    "把音量调到30%": ("volume.set", {"percent": 30}),
}


async def test_the_examples_sentences_do_what_people_say(private_daemon):
    """From the bus through the real agent to the app and back, without a model."""
    registry = Registry()
    agent = Agent(registry, Understander(registry, None), budget_s=20, queue=4)
    service = BusService(
        private_daemon.address, NAME, agent=agent, voice=None, registry=registry, status=dict, version=""
    )
    await service.start()
    async with lamp(private_daemon.address) as process, connect(private_daemon.address) as proxy:
        await until(registry.commands, 10)
        assert all(len(command.examples) >= 3 for command in registry.commands())
        for text, expected in SENTENCES.items():
            reply = await proxy.ask(text)
            assert (reply.ok, reply.decided_by) == (True, "sentences"), text
            assert [(call["method"], call["args"]) for call in reply.calls] == [expected], text
            assert json.loads(await line_of(process))
    await agent.close()
    await service.stop()


def test_the_client_is_light():
    """An app imports neither pydantic nor any other room."""
    import subprocess

    code = "import sys, famulus.client; print([m for m in sys.modules if m.startswith(('pydantic', 'famulus.'))])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True).stdout
    assert "pydantic" not in output
    assert all(name.startswith(("famulus.client", "famulus.core")) for name in json.loads(output.replace("'", '"')))
