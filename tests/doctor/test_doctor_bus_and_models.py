"""The bus, its policy and the service on it; models; settings; and what becomes of checks that break."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from boards import Board, short
from dbus_fast import Message, MessageType
from famulus.bench.private_bus import PrivateBus
from famulus.client.agent import NAME
from famulus.client.connection import call_bus, close_bus, open_bus
from famulus.daemon.doctor import bus, models
from famulus.daemon.doctor import service as service_module
from famulus.daemon.doctor import settings as settings_check
from famulus.daemon.doctor.examine import CHECKS, Check, examine
from famulus.daemon.doctor.finding import Finding, ok
from famulus.daemon.doctor.service import Service, look_for_service
from famulus.daemon.doctor.situation import Situation
from famulus.daemon.settings import Bus
from famulus.models.catalogue import Catalogue
from famulus.models.store import Store

ADDRESS = "unix:path=/run/dbus/system_bus_socket"
SYSTEM = Service(ADDRESS, is_system_bus=True)
SESSION = Service("unix:path=/run/user/1000/bus")


def test_a_bus_that_is_wanted_by_nobody_is_no_fault(board: Board) -> None:
    situation = board.situation(bus={"address": "none"})
    assert {check(situation).level for check in (bus.bus, bus.bus_policy, bus.service)} == {"ok"}


def test_a_bus_that_is_not_there_is_a_fault_once(pi4: Board) -> None:
    situation = pi4.situation(Service(ADDRESS, is_system_bus=True, problem="The bus cannot be reached."))
    assert short(bus.bus(situation)) == ("fault", "sudo apt install dbus && sudo systemctl start dbus")
    assert bus.service(situation).level == "ok"


def test_the_policy_must_let_the_user_of_the_unit_own_the_name(pi4: Board) -> None:
    assert bus.bus_policy(pi4.situation(SYSTEM)).message == "famulus may own org.famulus.Agent."
    assert bus.bus_policy(pi4.situation(SYSTEM, bus={"name": "org.other"})).level == "fault"
    policy = pi4.root / "etc/dbus-1/system.d/org.famulus.Agent.conf"
    policy.write_text("<busconfig>")
    assert short(bus.bus_policy(pi4.situation(SYSTEM))) == ("fault", "sudo script/install")
    policy.unlink()
    assert bus.bus_policy(pi4.situation(SYSTEM)).message == "No policy lets famulus own org.famulus.Agent."
    assert bus.bus_policy(pi4.situation(SESSION)).level == "ok"


def test_who_may_not_talk_to_it_joins_the_group(pi4: Board) -> None:
    denied = Service(ADDRESS, is_system_bus=True, owner_uid=990, refusal="denied", refused_because="No.")
    found = bus.bus_policy(pi4.situation(denied))
    assert short(found) == ("fault", "sudo usermod -aG famulus pi, then log in again")
    assert bus.service(pi4.situation(denied)).level == "ok"


@pytest.mark.parametrize(
    ("name", "command"),
    [("pi4", "sudo systemctl start famulus"), ("pc", "systemctl --user start famulus"), ("board", "famulusd")],
)
def test_a_service_that_does_not_run_is_started_as_it_is_installed(
    request: pytest.FixtureRequest, name: str, command: str
) -> None:
    installed: Board = request.getfixturevalue(name)
    assert short(bus.service(installed.situation(SESSION))) == ("warning", command)


Owner = Callable[[Message], Message | None]


@pytest.fixture
async def private_bus(tmp_path: Path) -> AsyncIterator[PrivateBus]:
    async with PrivateBus(tmp_path) as made:
        yield made


@asynccontextmanager
async def owned(private_bus: PrivateBus, answer: Owner) -> AsyncIterator[None]:
    """Somebody owns the name and gives ``answer`` to every call; None answers never."""
    connection = await open_bus(private_bus.address)

    def on_message(message: Message) -> bool:
        if message.message_type is MessageType.METHOD_CALL and (reply := answer(message)) is not None:
            connection.send(reply)
        return message.message_type is MessageType.METHOD_CALL

    connection.add_message_handler(on_message)
    await call_bus(connection, "RequestName", "su", NAME, 4)
    try:
        yield
    finally:
        await close_bus(connection)


async def look(board: Board, private_bus: PrivateBus) -> Service:
    return await asyncio.to_thread(look_for_service, board.machine, Bus(address=private_bus.address))


async def test_the_service_on_a_bus_is_asked_what_it_says(board: Board, private_bus: PrivateBus) -> None:
    assert (await look(board, private_bus)).owner_uid is None
    status = {"state": "idle", "version": "1.2.3"}
    async with owned(private_bus, lambda call: Message.new_method_return(call, "s", [json.dumps(status)])):
        found = await look(board, private_bus)
    assert found.status == status
    assert found.owner_uid is not None
    assert bus.service(board.situation(found)).message == "famulus 1.2.3 runs and is idle."


async def test_a_service_that_refuses_or_does_not_answer_is_told(
    board: Board, private_bus: PrivateBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = "org.freedesktop.DBus.Error.AccessDenied"
    async with owned(private_bus, lambda call: Message.new_error(call, denied, "No.")):
        assert (await look(board, private_bus)).refusal == "denied"
    monkeypatch.setattr(service_module, "_ANSWER_S", 0.2)
    async with owned(private_bus, lambda call: None):
        found = await look(board, private_bus)
    assert "was not answered within 0.2 s" in found.refused_because
    assert (await asyncio.to_thread(bus.service, board.situation(found))).level == "fault"


@pytest.mark.parametrize("address", ["unix:path=/nonexistent/bus", "nonsense"])
def test_an_address_that_leads_nowhere_is_told(board: Board, address: str) -> None:
    found = look_for_service(board.machine, Bus(address=address))
    assert found.problem
    assert bus.bus(board.situation(found)).level == "fault"


def test_a_system_service_is_looked_for_on_the_system_bus(pi4: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/session")
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/system")
    assert look_for_service(pi4.machine, Bus()).is_system_bus


def levels(found: list[Finding]) -> dict[str, str]:
    return {finding.name.removeprefix("model "): finding.level for finding in found}


def test_a_model_that_is_missing_or_damaged_says_what_to_pull(board: Board, tmp_path: Path) -> None:
    storage = {"storage": {"models": str(tmp_path / "models")}}
    found = models.models(board.situation(**storage))
    assert levels(found) == {"asr": "fault", "llm": "fault", "embedder": "warning", "vad": "ok", "wake": "ok"}
    assert {finding.mend for finding in found if finding.mend} == {
        "famulus models pull moonshine-tiny-en",
        "famulus models pull smollm2-135m",
        "famulus models pull use",
    }
    entry = Catalogue.load().entry("smollm2-135m")
    folder = Store(tmp_path / "models").folder(entry)
    folder.mkdir(parents=True)
    with (folder / entry.files[0].filename).open("wb") as file:
        file.truncate(entry.files[0].size)  # right in size, wrong in content
    situation = board.situation(**storage)
    assert levels(models.models(situation))["llm"] == "ok"
    whole = Situation(situation.machine, situation.settings, verify=True)
    assert levels(models.models(whole))["llm"] == "fault"


def test_a_model_of_another_role_or_of_no_catalogue_is_a_fault(board: Board) -> None:
    found = models.models(board.situation(llm={"model": "silero-vad"}, asr={"model": "nonsense"}))
    assert levels(found)["llm"] == levels(found)["asr"] == "fault"
    without = models.models(board.situation(llm={"model": ""}, audio={"source": "none"}))
    assert set(levels(without)) == {"asr", "llm", "embedder"}
    assert levels(without)["llm"] == "ok"


def test_every_problem_in_the_settings_is_a_finding_with_the_file_to_edit(board: Board, tmp_path: Path) -> None:
    file = tmp_path / "famulus.toml"
    file.write_text("[wake]\ntreshold = 0.7\n[llm]\nthreads = -1\n")
    found = list(examine(board.machine, config=file, checks=[settings_check.settings]))
    assert [short(finding) for finding in found] == [("fault", f"sudoedit {file}")] * 2
    assert "did you mean threshold?" in found[0].message
    file.write_text("")
    (good,) = examine(board.machine, config=file, checks=[settings_check.settings])
    assert (good.level, str(file) in good.message) == ("ok", True)
    (absent,) = examine(board.machine, config=tmp_path / "absent", checks=[settings_check.settings])
    assert absent.level == "fault"


def test_a_variable_with_a_wrong_value_is_to_be_unset(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMULUS_LLM__THREADS", "many")
    (found,) = examine(board.machine, checks=[settings_check.settings])
    assert short(found) == ("fault", "unset FAMULUS_LLM__THREADS")


def breaks(situation: Situation) -> Finding:
    raise RuntimeError("a bug")


def hangs_on(situation: Situation) -> Finding:
    time.sleep(5)
    return ok("hangs on", "")


def exits(situation: Situation) -> Finding:
    raise SystemExit(3)


def works(situation: Situation) -> Finding:
    return ok("works", "")


def test_a_check_that_breaks_or_hangs_is_a_finding_and_the_others_go_on(board: Board) -> None:
    checks: list[Check] = [breaks, hangs_on, exits, works]
    found = list(examine(board.machine, checks=checks, deadline_s=0.3))
    found = [finding for finding in found if finding.name != "bus"]
    assert [(finding.name, finding.level) for finding in found] == [
        ("breaks", "fault"),
        ("hangs on", "fault"),
        ("exits", "fault"),
        ("works", "ok"),
    ]
    assert found[0].message == "This check broke with RuntimeError: a bug."
    assert found[1].message == "This check did not end within 0.3 s."


@pytest.mark.parametrize("name", ["board", "pi4", "pi5", "jetson", "pc"])
def test_every_check_ends_well_on_every_board(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With an unreachable bus and no microphone; nothing but those may be a fault of the machine."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/system")
    monkeypatch.setenv("FAMULUS_BUS__ADDRESS", "system")
    monkeypatch.setenv("FAMULUS_AUDIO__SOURCE", "none")
    machine = request.getfixturevalue(name).machine
    found = list(examine(machine))
    assert len(found) >= len(CHECKS)
    assert not [finding for finding in found if finding.message.startswith("This check")]
    assert [finding for finding in found if bool(finding.mend) == (finding.level == "ok")] == []
    assert {finding.name for finding in found if finding.level == "fault"} <= {
        "bus",
        "bus policy",
        "model asr",
        "model llm",
    }


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\0", b"MemTotal: many kB\n", b"a:b:c\n" * 3, b"\x00" * 5000])
def test_files_with_nonsense_in_them_break_no_check(pi4: Board, content: bytes) -> None:
    for file in [*pi4.root.glob("proc/**/*"), *pi4.root.glob("sys/class/**/*"), *pi4.root.glob("etc/**/*")]:
        if file.is_file():
            file.write_bytes(content)
    checks = [check for check in CHECKS if check.__name__ != "microphone"]
    found = list(examine(pi4.machine, checks=checks))
    assert not [finding for finding in found if finding.message.startswith("This check")]
