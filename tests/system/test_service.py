"""The installed service under a real systemd and a real bus. In order: install, run, upgrade, remove."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from .conftest import CHECKOUT, Container, eventually

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

MARKER = "zanzibarquokka"  # a word of an utterance that must not turn up anywhere
OBJECT = ("org.famulus.Agent", "/org/famulus/Agent")
SIMPLE = "what time is it"
_number = itertools.count()


def free_text() -> str:
    """No sentence matches it and it was not asked before, so the language model has to work on it."""
    return f"tell me something about {MARKER} {next(_number)}"


@pytest.fixture(scope="session")
def service(container: Container) -> Container:
    """famulus as script/install puts it there, and two people: alice in the group famulus, bob outside it."""
    # Without a sentence encoder, what no sentence matches goes to the language model.
    container.run("systemctl", "set-environment", "FAMULUS_EMBEDDER__MODEL=")
    done = install(container)
    assert done.returncode == 0, done.stdout + done.stderr
    container.run("useradd", "--create-home", "--groups", "famulus", "alice")
    container.run("useradd", "--create-home", "bob")
    return container


def install(
    container: Container, *options: str, checkout: str = CHECKOUT, timeout: float = 110
) -> subprocess.CompletedProcess[str]:
    return container.run(f"{checkout}/script/install", "--yes", *options, timeout=timeout, check=False)


def call(
    container: Container, method: str, *arguments: str, user: str = "root", check: bool = True
) -> subprocess.CompletedProcess[str]:
    interface, _, member = method.rpartition(".")
    command = ("busctl", "--system", "--timeout=50", "call", *OBJECT, interface, member, *arguments)
    return container.run(*command, user=user, check=check, timeout=60)


def ask(container: Container, text: str, user: str = "root") -> str:
    return call(container, "org.famulus.Agent1.Ask", "sa{sv}", text, "0", user=user).stdout


def slots(container: Container) -> dict[str, str]:
    """The state of each model by its id."""
    status = container.run("busctl", "--system", "--json=short", "call", *OBJECT, "org.famulus.Agent1", "Status")
    return {slot["name"]: slot["state"] for slot in json.loads(json.loads(status.stdout)["data"][0])["slots"]}


def workers(container: Container) -> list[int]:
    """The pids of the processes that hold the models, as the container counts them."""
    pids = container.run("pgrep", "-P", str(container.main_pid()), check=False).stdout
    return [int(pid) for pid in pids.split()]


def is_active(container: Container) -> bool:
    return container.show("ActiveState")["ActiveState"] == "active"


def start(container: Container) -> None:
    container.run("systemctl", "reset-failed", "famulus.service")
    container.run("systemctl", "restart", "famulus.service", timeout=60)


def seconds_to_ready(container: Container) -> float:
    start(container)
    times = container.show("ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    return (int(times["ActiveEnterTimestampMonotonic"]) - int(times["ExecMainStartTimestampMonotonic"])) / 1e6


def journal(container: Container, *options: str) -> str:
    container.run("journalctl", "--sync")
    return container.run("journalctl", "--no-pager", "--all", *options).stdout


@contextmanager
def drop_in(container: Container, text: str) -> Iterator[None]:
    """Settings of the unit that hold inside the block, from its next start on."""
    folder = "/run/systemd/system/famulus.service.d"
    container.run("mkdir", "-p", folder)
    container.run("tee", f"{folder}/test.conf", stdin=f"[Service]\n{text}\n".encode())
    container.run("systemctl", "daemon-reload")
    try:
        yield
    finally:
        container.run("rm", "-r", folder)
        container.run("systemctl", "daemon-reload")


@contextmanager
def running(
    container: Container, *command: str, user: str = "root", until: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    """A command beside the block, which starts once the command has written the line ``until``."""
    process = container.spawn(*command, user=user)
    try:
        if until:
            assert process.stdout is not None
            line = process.stdout.readline().decode().strip()
            assert line == until, line + process.stdout.read().decode()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=5)


# --- install and start ----------------------------------------------------------------------------------------------


def test_it_is_installed_enabled_and_runs(service: Container) -> None:
    assert service.run("systemctl", "is-enabled", "famulus.service").stdout.strip() == "enabled"
    assert is_active(service)
    assert service.run("systemd-analyze", "verify", "famulus.service").stderr == ""
    assert "/opt/famulus/versions/" in service.run("readlink", "-f", "/usr/local/bin/famulus").stdout


def test_a_second_install_changes_nothing(service: Container) -> None:
    before = service.show("MainPID", "NRestarts"), service.run("readlink", "/opt/famulus/current").stdout
    done = install(service)
    assert done.returncode == 0, done.stderr
    assert (service.show("MainPID", "NRestarts"), service.run("readlink", "/opt/famulus/current").stdout) == before


def test_it_is_ready_within_three_seconds_with_models(service: Container) -> None:
    assert seconds_to_ready(service) <= 3
    assert SIMPLE not in ask(service, SIMPLE)


def test_it_is_ready_within_three_seconds_without_models(service: Container) -> None:
    service.run("mv", "/var/lib/famulus/models", "/var/lib/famulus/aside")
    try:
        assert seconds_to_ready(service) <= 3
        assert '"status" s "done"' in ask(service, SIMPLE)
    finally:
        service.run("mv", "/var/lib/famulus/aside", "/var/lib/famulus/models")
        start(service)


def test_a_call_starts_the_stopped_service(service: Container) -> None:
    service.run("systemctl", "stop", "famulus.service")
    assert '"status" s "done"' in ask(service, SIMPLE, user="alice")
    assert is_active(service)


def test_a_language_model_runs_in_the_sandbox(service: Container) -> None:
    assert '"decided_by" s "model"' in ask(service, free_text())


def test_the_sentence_encoder_runs_in_the_sandbox(service: Container) -> None:
    with drop_in(service, "Environment=FAMULUS_EMBEDDER__MODEL=use"):
        start(service)
        ask(service, free_text())
        assert slots(service)["use"] == "ready"
    start(service)


PROBE = """
import onnxruntime, pyaudio, sherpa_onnx, soundfile, soxr, pathlib
from famulus.engines.moonshine import Moonshine
assert "flags" in pathlib.Path("/proc/cpuinfo").read_text() or "Features" in pathlib.Path("/proc/cpuinfo").read_text()
folder = pathlib.Path("/var/lib/famulus/models/moonshine-tiny-en")
names = {p.name.split("_")[0].split(".")[0]: str(p) for p in folder.iterdir() if not p.name.startswith(".")}
class Job:
    cancelled = False
    def on_cancel(self, callback): pass
engine = Moonshine(encoder=names["encoder"], decoder=names["decoder"], tokenizer=names["tokenizer"])
assert engine.transcribe(bytes(64000), Job()).audio_s == 2
pyaudio.PyAudio().terminate()
assert open("/run/sound-like").read() == "sound"
print("PROBE OK")
"""


def test_speech_to_text_and_the_audio_group_work_in_the_sandbox(service: Container) -> None:
    service.run("install", "-m", "640", "-g", "audio", "/dev/stdin", "/run/sound-like", stdin=b"sound")
    service.run("tee", "/opt/famulus/probe.py", stdin=PROBE.encode())
    unit = service.run("cat", "/etc/systemd/system/famulus.service").stdout
    unit = unit.replace("/current/bin/famulusd", "/current/bin/python /opt/famulus/probe.py")
    unit = unit.replace("Type=notify", "Type=oneshot").replace("Restart=on-failure", "").replace("WatchdogSec=20", "")
    service.run("tee", "/run/systemd/system/famulus-probe.service", stdin=unit.encode())
    service.run("systemctl", "daemon-reload")
    try:
        service.run("systemctl", "start", "famulus-probe.service", check=False, timeout=60)
        assert "PROBE OK" in journal(service, "-u", "famulus-probe.service")
    finally:
        service.run("rm", "/opt/famulus/probe.py", "/run/systemd/system/famulus-probe.service", "/run/sound-like")
        service.run("systemctl", "daemon-reload")


def test_an_absent_key_is_no_error_and_a_present_one_is_handed_over(service: Container) -> None:
    credential = "/run/credentials/famulus.service/famulus.remote-key"
    assert service.run("test", "-e", credential, check=False).returncode == 1
    service.run("install", "-D", "-m", "600", "/dev/stdin", "/etc/credstore/famulus.remote-key", stdin=b"sk-1")
    try:
        start(service)
        assert service.run("cat", credential, user="famulus").stdout == "sk-1"
        assert service.run("cat", credential, user="alice", check=False).returncode != 0
    finally:
        service.run("rm", "/etc/credstore/famulus.remote-key")
        start(service)


# --- reload, watchdog, workers ---------------------------------------------------------------------------------------


def test_a_reload_is_told_to_systemd_and_keeps_the_process(service: Container) -> None:
    pid = service.main_pid()
    service.run("systemctl", "log-level", "debug")
    try:
        service.run("systemctl", "reload", "famulus.service")
        eventually(
            "RELOADING=1, then READY=1",
            lambda: reload_messages(service, pid) == ["RELOADING=1", "READY=1"],
            within_s=5,
        )
    finally:
        service.run("systemctl", "log-level", "info")
    assert service.main_pid() == pid
    eventually("the unit is running again", lambda: service.show("SubState")["SubState"] == "running", within_s=5)


def reload_messages(container: Container, pid: int) -> list[str]:
    lines = journal(container, "_PID=1", "-o", "cat", "-g", f"Got notification message from PID {pid}").splitlines()
    states = [word for line in lines for word in ("RELOADING=1", "READY=1") if word in line]
    return states[-2:]


def test_a_process_that_hangs_is_started_again(service: Container) -> None:
    with drop_in(service, "WatchdogSec=2"):
        start(service)
        pid = service.main_pid()
        time.sleep(3)  # longer than the deadline: the pings come
        assert service.main_pid() == pid
        service.run("kill", "-STOP", str(pid))
        eventually(
            "systemd started it again",
            lambda: is_active(service) and service.main_pid() not in (0, pid),
            within_s=15,
        )
        assert '"status" s "done"' in ask(service, SIMPLE)
    start(service)


def test_a_killed_worker_does_not_stop_the_unit(service: Container) -> None:
    ask(service, free_text())
    before = service.show("MainPID", "NRestarts")
    service.run("kill", "-KILL", *map(str, workers(service)))
    eventually("the loss is noticed", lambda: "ready" not in slots(service).values())
    assert '"decided_by" s "model"' in ask(service, free_text())
    assert service.show("MainPID", "NRestarts") == before


# --- stop ------------------------------------------------------------------------------------------------------------


@contextmanager
def idle(container: Container) -> Iterator[None]:
    start(container)
    yield


@contextmanager
def just_started(container: Container) -> Iterator[None]:
    container.run("systemctl", "stop", "famulus.service")
    container.run("systemctl", "start", "--no-block", "famulus.service")
    eventually("a process", lambda: container.main_pid() > 0)
    yield


@contextmanager
def a_model_never_finishes_to_load(container: Container) -> Iterator[None]:
    start(container)
    with running(container, "busctl", "call", *OBJECT, "org.famulus.Agent1", "Ask", "sa{sv}", free_text(), "0"):
        eventually("a worker", lambda: workers(container))
        container.run("kill", "-STOP", *map(str, workers(container)))
        assert "loading" in slots(container).values()
        yield


@contextmanager
def a_model_is_at_work(container: Container) -> Iterator[None]:
    start(container)
    text = f"{free_text()} and {' '.join(f'number {n}' for n in range(40))}"
    with running(container, "busctl", "call", *OBJECT, "org.famulus.Agent1", "Ask", "sa{sv}", text, "0"):
        eventually("a busy model", lambda: "busy" in slots(container).values())
        yield


@contextmanager
def a_worker_hangs(container: Container) -> Iterator[None]:
    start(container)
    ask(container, free_text())
    container.run("kill", "-STOP", *map(str, workers(container)))
    yield


@pytest.mark.parametrize(
    "state", [idle, just_started, a_model_never_finishes_to_load, a_model_is_at_work, a_worker_hangs]
)
def test_it_stops_within_five_seconds(service: Container, state: Callable[[Container], contextmanager[None]]) -> None:
    with state(service):
        began = time.monotonic()
        service.run("systemctl", "stop", "famulus.service")
        took = time.monotonic() - began
    assert took <= 5
    assert service.show("Result")["Result"] == "success"
    assert service.run("pgrep", "-u", "famulus", check=False).stdout == ""
    start(service)


# --- who may talk to it ----------------------------------------------------------------------------------------------


def test_a_member_of_the_group_can_talk_to_it_and_others_cannot(service: Container) -> None:
    assert '"status" s "done"' in ask(service, SIMPLE, user="alice")
    refused = call(service, "org.famulus.Agent1.Ask", "sa{sv}", SIMPLE, "0", user="bob", check=False)
    assert refused.returncode != 0
    assert "denied" in refused.stderr.lower() or "not authorized" in refused.stderr.lower(), refused.stderr


PEER = """
import asyncio, sys
from dbus_fast import BusType, Message, MessageType, RequestNameReply
from dbus_fast.aio import MessageBus

async def own():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    try:
        assert await bus.request_name("org.famulus.Agent") == RequestNameReply.PRIMARY_OWNER
    except Exception as error:
        print("refused", type(error).__name__, flush=True)
        return
    print("owned", flush=True)
    while True:
        await bus.send(Message.new_signal("/org/famulus/Agent", "org.famulus.Agent1", "Probe"))
        await asyncio.sleep(0.05)

async def hear():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    heard = asyncio.Event()
    bus.add_message_handler(lambda m: heard.set() if m.member == "Probe" else None)
    await bus.call(Message(destination="org.freedesktop.DBus", path="/org/freedesktop/DBus", member="AddMatch",
                           interface="org.freedesktop.DBus", signature="s", body=["type='signal',member='Probe'"]))
    try:
        await asyncio.wait_for(heard.wait(), 1)
        print("heard", flush=True)
    except TimeoutError:
        print("nothing", flush=True)

async def provide():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    bus.add_message_handler(lambda m: Message.new_method_return(m) if m.member == "Invoke" else None)
    print(bus.unique_name, flush=True)
    await asyncio.sleep(20)

async def invoke():
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    await bus.request_name("org.famulus.Agent")
    for interface in ("org.famulus.Provider1", "org.example.Other1"):
        reply = await bus.call(Message(destination=sys.argv[2], path="/app", interface=interface, member="Invoke"))
        print("invoked" if reply.message_type is MessageType.METHOD_RETURN else reply.error_name, flush=True)

asyncio.run({"own": own, "hear": hear, "provide": provide, "invoke": invoke}[sys.argv[1]]())
"""
PYTHON = "/opt/famulus/current/bin/python"


@pytest.fixture
def peer(service: Container) -> Iterator[str]:
    """A script that plays either side of the bus; the service is stopped meanwhile, and its name free."""
    service.run("systemctl", "stop", "famulus.service")
    service.run("install", "-m", "644", "/dev/stdin", "/run/famulus-peer.py", stdin=PEER.encode())
    yield "/run/famulus-peer.py"
    service.run("rm", "/run/famulus-peer.py")
    start(service)


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_nobody_else_can_take_its_name(service: Container, peer: str, user: str) -> None:
    assert service.run(PYTHON, peer, "own", user=user).stdout.startswith("refused")


def test_its_signals_reach_members_of_the_group_only(service: Container, peer: str) -> None:
    with running(service, PYTHON, peer, "own", user="famulus", until="owned"):
        assert service.run(PYTHON, peer, "hear", user="alice").stdout.strip() == "heard"
        assert service.run(PYTHON, peer, "hear", user="bob").stdout.strip() == "nothing"


@pytest.mark.parametrize(("user", "answer"), [("alice", "invoked"), ("bob", "org.freedesktop.DBus.Error.AccessDenied")])
def test_it_can_call_the_apps_of_members_and_only_as_a_provider(
    service: Container, peer: str, user: str, answer: str
) -> None:
    app = service.spawn(PYTHON, peer, "provide", user=user)
    try:
        assert app.stdout is not None
        name = app.stdout.readline().decode().strip()
        answers = service.run(PYTHON, peer, "invoke", name, user="famulus").stdout.split()
    finally:
        app.kill()
        app.communicate(timeout=5)
    assert answers == [answer, "org.freedesktop.DBus.Error.AccessDenied"]


def test_the_journal_holds_no_word_that_was_said(service: Container) -> None:
    ask(service, free_text())
    assert "run" in journal(service, "-u", "famulus.service")
    assert MARKER not in journal(service, "-o", "export")


# --- upgrade and remove ----------------------------------------------------------------------------------------------


def versions(container: Container) -> list[str]:
    return container.run("ls", "/opt/famulus/versions").stdout.split()


def copy_of_the_checkout(container: Container, name: str, change: str) -> str:
    """Another checkout, after the shell command ``change`` in it."""
    container.run("cp", "-r", CHECKOUT, f"/srv/{name}")
    container.run("sh", "-ec", f"cd /srv/{name}; {change}")
    return f"/srv/{name}"


def test_an_upgrade_keeps_settings_data_and_the_version_before(service: Container) -> None:
    service.run("sh", "-c", "echo '# mine' >>/etc/famulus/famulus.toml; echo x >/var/lib/famulus/kept")
    (old,) = versions(service)
    newer = copy_of_the_checkout(service, "newer", "sed -i 's/^version = .*/version = \"99.0.1\"/' pyproject.toml")
    done = install(service, checkout=newer)
    assert done.returncode == 0, done.stdout + done.stderr
    assert versions(service)[0] == old
    assert versions(service)[1].startswith("99.0.1-")
    assert '"99.0.1"' in service.run("busctl", "get-property", *OBJECT, "org.famulus.Agent1", "Version").stdout
    assert service.run("tail", "-n1", "/etc/famulus/famulus.toml").stdout == "# mine\n"
    assert service.run("cat", "/var/lib/famulus/kept").stdout == "x\n"


def test_a_version_that_does_not_become_ready_is_taken_back(service: Container) -> None:
    before = versions(service)
    hang = "s/^def main() -> None:/&\\n    __import__('time').sleep(100)/"
    change = (
        f'sed -i "{hang}" daemon/__main__.py; grep -q sleep daemon/__main__.py; echo "# new" >>systemd/famulus.service'
    )
    broken = copy_of_the_checkout(service, "broken", change)
    with drop_in(service, "TimeoutStartSec=3"):
        done = install(service, checkout=broken)
    assert done.returncode != 0
    assert "timeout was exceeded" in done.stderr
    assert "runs again; the new version was removed" in done.stderr
    assert versions(service) == before
    assert '"99.0.1"' in service.run("busctl", "get-property", *OBJECT, "org.famulus.Agent1", "Version").stdout
    assert "# new" not in service.run("cat", "/etc/systemd/system/famulus.service").stdout


def test_uninstall_leaves_settings_and_data_only(service: Container) -> None:
    done = service.run(f"{CHECKOUT}/script/install", "--uninstall", "--yes")
    assert "rm -rf /etc/famulus /var/lib/famulus" in done.stdout
    # Where an installation puts things; the host's own checkout shines through the overlay elsewhere.
    left = service.run(
        "find", "/etc", "/opt", "/usr", "/var/lib", "/var/cache", "-xdev", "-name", "*famulus*", timeout=60
    ).stdout.split()
    assert sorted(left) == ["/etc/famulus", "/etc/famulus/famulus.toml", "/var/lib/famulus"]
    assert service.run("systemctl", "cat", "famulus.service", check=False).returncode != 0
    assert service.run("pgrep", "-u", "famulus", check=False).stdout == ""
    assert service.run("cat", "/var/lib/famulus/kept").stdout == "x\n"
