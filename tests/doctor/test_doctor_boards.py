"""Heat, power, memory, disks and clock of four boards."""

from __future__ import annotations

from typing import Any

import pytest
from boards import Board, short
from famulus.daemon.board import firmware_flags, read_board
from famulus.daemon.doctor import clock, heat, models, storage, versions
from famulus.daemon.doctor.service import Service

LARGE = {"llm": {"context": 32768}}  # the cache of so long a context alone takes 0.8 GB
MAINS = "use the board's own power supply and a short, thick cable"
COOLER = "give it a heat sink or a fan, and air"


@pytest.mark.parametrize(
    ("name", "temperature", "limit"), [("pi4", 51.6, 80), ("pi5", 60, 80), ("jetson", 63, 99), ("pc", 45, 80)]
)
def test_the_temperature_is_that_of_the_hottest_processor_sensor(
    request: pytest.FixtureRequest, name: str, temperature: float, limit: float
) -> None:
    board: Board = request.getfixturevalue(name)
    reading = read_board(board.machine.sys)
    assert (reading.temperature_c, reading.limit_c, reading.throttled, reading.state) == (temperature, limit, (), "ok")
    assert heat.temperature(board.situation()).level == "ok"
    assert heat.throttling(board.situation()).level == "ok"


def test_a_board_without_sensors_is_no_cause_for_alarm(board: Board) -> None:
    assert heat.temperature(board.situation()).level == "ok"
    assert heat.throttling(board.situation()).level == "ok"


def test_near_the_limit_it_asks_for_cooling(jetson: Board) -> None:
    jetson.zone(0, "cpu-thermal", 95_000, {"passive": 99_000})
    found = heat.temperature(jetson.situation())
    assert short(found) == ("warning", COOLER)
    assert "95 °C, and slows down at 99 °C" in found.message


@pytest.mark.parametrize("alert", ["cpu-throttle-alert", "devfreq-17000000.ga10b", "cpufreq-cpu0"])
def test_a_processor_that_is_slowed_down_is_told_and_a_fan_is_not(jetson: Board, alert: str) -> None:
    jetson.cooler(9, alert, 1)
    assert read_board(jetson.machine.sys).state == "throttled"
    assert short(heat.throttling(jetson.situation())) == ("warning", COOLER)


def test_over_current_of_a_jetson_is_told_as_past(jetson: Board) -> None:
    jetson.write("sys/class/hwmon/hwmon2/oc3_event_cnt", "7")
    found = heat.throttling(jetson.situation())
    assert found.message == "Since the boot the supply current was too high for a time."
    assert read_board(jetson.machine.sys).state == "ok"
    assert found.mend == MAINS


def test_the_firmware_of_a_pi_is_asked_for_what_is_and_what_was(pi4: Board) -> None:
    pi4.program("vcgencmd", '[ "$1" = get_throttled ] && echo throttled=0x50005')
    found = heat.throttling(pi4.situation())
    assert found.message == "Now the supply voltage is too low and the processor is slowed down."
    assert short(found) == ("warning", MAINS)
    pi4.program("vcgencmd", "echo throttled=0xe0000")
    assert "the frequency was capped and the processor was slowed down" in heat.throttling(pi4.situation()).message


@pytest.mark.parametrize("script", ["exit 1", "echo VCHI initialization failed", "exec /bin/sleep 30"])
def test_a_firmware_that_does_not_answer_leaves_the_alarm_of_the_kernel(pi4: Board, script: str) -> None:
    pi4.program("vcgencmd", script)
    pi4.write("sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1")
    assert heat.throttling(pi4.situation()).message == "Now the supply voltage is too low."


def test_the_old_file_of_the_firmware_is_read_only_where_there_is_no_alarm(pi4: Board) -> None:
    pi4.write("sys/devices/platform/soc/soc:firmware/get_throttled", "50005")
    assert read_board(pi4.machine.sys).throttled == ()
    (pi4.root / "sys/class/hwmon/hwmon1/name").unlink()
    assert read_board(pi4.machine.sys).throttled == firmware_flags(0x50005)


def test_firmware_flags_name_every_bit() -> None:
    assert firmware_flags(0) == ()
    assert firmware_flags(0x80001) == ("under_voltage", "soft_temperature_limit_seen")
    assert len(firmware_flags(0xF000F)) == 8


@pytest.mark.parametrize(("sections", "level"), [({}, "ok"), (LARGE, "warning")])
def test_only_a_large_model_needs_swap(pi4: Board, sections: dict[str, Any], level: str) -> None:
    assert models.swap(pi4.situation(**sections)).level == level


def test_compressed_memory_serves_as_swap(jetson: Board) -> None:
    found = models.swap(jetson.situation(**LARGE))
    assert (found.level, found.message) == ("ok", "1,331 MB in compressed memory (zram).")


@pytest.mark.parametrize("area", ["/var/swap file", "/dev/mmcblk0p2 partition"])
def test_swap_on_a_memory_card_is_warned_of(pi4: Board, area: str) -> None:
    pi4.write("proc/swaps", f"Filename Type Size Used Priority\n{area} 102396 0 -2")
    found = models.swap(pi4.situation())
    assert (found.level, found.mend.endswith(f"swapoff {area.split(maxsplit=1)[0]}")) == ("warning", True)


def test_swap_on_a_disk_is_good(pc: Board) -> None:
    assert models.swap(pc.situation(**LARGE)).level == "ok"


def test_memory_is_held_against_each_model_and_against_all(pi4: Board) -> None:
    assert models.memory(pi4.situation()).level == "ok"
    tight = models.memory(pi4.situation(memory={"budget_mb": 300}))
    assert tight.level == "warning"
    assert "make room for each other" in tight.message
    assert models.memory(pi4.situation(memory={"budget_mb": 100})).level == "fault"
    pi4.memory(1900, 200)
    assert "cannot be loaded just now" in models.memory(pi4.situation()).message
    (pi4.root / "proc/meminfo").unlink()
    assert models.memory(pi4.situation()).level == "warning"


def test_memory_that_loaded_models_hold_is_not_missing(pi4: Board) -> None:
    pi4.memory(1900, 200)
    status = {"slots": [{"name": "llm", "memory_mb": 250.0}, {"name": "asr", "memory_mb": 0.0}]}
    assert models.memory(pi4.situation(Service(status=status))).level == "ok"


def test_a_model_that_the_catalogue_has_not_is_no_matter_of_memory(pi4: Board) -> None:
    assert models.memory(pi4.situation(llm={"model": "nonsense"}, asr={"model": ""})).level == "ok"


@pytest.mark.parametrize(("free", "level"), [(10**10, "ok"), (2 * 10**8, "warning"), (10**7, "fault")])
def test_room_on_the_disk(pi4: Board, free: int, level: str) -> None:
    pi4.facts["free_bytes"] = lambda _: free
    assert storage.disk_space(pi4.situation()).level == level


def test_a_read_only_root_is_told(pi4: Board) -> None:
    pi4.mount("179:2", "/dev/mmcblk0p2", "ro,noatime")
    assert short(storage.disk_space(pi4.situation())) == ("warning", "sudo mount -o remount,rw /")


def test_a_memory_card_is_spared_with_noatime_and_a_bounded_journal(pi4: Board) -> None:
    assert "noatime" in storage.wear(pi4.situation()).message
    pi4.mount("179:2", "/dev/mmcblk0p2", "rw,noatime")
    assert storage.wear(pi4.situation()).level == "ok"
    (pi4.root / "var/log/journal").mkdir(parents=True)
    assert "journal" in storage.wear(pi4.situation()).message
    pi4.write("etc/systemd/journald.conf", "[Journal]\n#SystemMaxUse=\nStorage=persistent")
    assert storage.wear(pi4.situation()).level == "warning"
    pi4.write("etc/systemd/journald.conf.d/50-card.conf", "[Journal]\nSystemMaxUse=50M")
    assert storage.wear(pi4.situation()).level == "ok"
    pi4.write("etc/systemd/journald.conf.d/50-card.conf", "[Journal]\nStorage=volatile")
    assert storage.wear(pi4.situation()).level == "ok"


@pytest.mark.parametrize("name", ["pi5", "jetson", "pc"])
def test_soldered_memory_and_disks_are_no_cards(request: pytest.FixtureRequest, name: str) -> None:
    board: Board = request.getfixturevalue(name)
    found = storage.wear(board.situation())
    assert (found.level, found.message) == ("ok", "/var/lib/famulus does not lie on a memory card.")


def test_an_overlay_over_the_card_is_no_card(pi4: Board) -> None:
    pi4.mount("0:30", "overlay", kind="overlay")
    assert storage.wear(pi4.situation()).level == "ok"


def test_a_card_that_is_known_by_its_source_only_is_found(pi4: Board) -> None:
    pi4.mount("0:31", "/dev/mmcblk0p2", kind="btrfs")
    assert storage.wear(pi4.situation()).level == "warning"


def test_a_clock_before_this_program_was_written_is_a_fault(pi4: Board) -> None:
    pi4.facts["now"] = lambda: 1_000_000.0
    found = clock.clock(pi4.situation())
    assert short(found) == ("fault", "sudo timedatectl set-ntp true")
    assert "1970-01-12" in found.message


@pytest.mark.parametrize(
    ("synchronised", "level", "words"),
    [(True, "ok", "set by a time server; after a start"), (None, "ok", "not tell"), (False, "warning", "lags")],
)
def test_a_board_without_a_clock_depends_on_a_time_server(
    pi4: Board, synchronised: bool | None, level: str, words: str
) -> None:
    pi4.facts["is_synchronised"] = lambda: synchronised
    found = clock.clock(pi4.situation())
    assert found.level == level
    assert words in found.message


def test_a_clock_with_a_battery_keeps_the_time_and_one_without_does_not(pi5: Board) -> None:
    pi5.facts["is_synchronised"] = lambda: False
    assert "rpi_rtc keeps it" in clock.clock(pi5.situation()).message
    pi5.write("sys/class/rtc/rtc0/battery_voltage", "8000")
    assert "lags" in clock.clock(pi5.situation()).message


def test_versions_name_board_and_kernel_and_a_service_of_another_version(pi4: Board) -> None:
    found = versions.versions(pi4.situation())
    assert found.level == "ok"
    assert "Linux 6.6.51+rpt-rpi-v8" in found.message
    assert found.message.endswith("Raspberry Pi 4 Model B Rev 1.4.")
    older = versions.versions(pi4.situation(Service(status={"version": "0.0.9"})))
    assert short(older) == ("warning", "sudo systemctl restart famulus")


def test_all_packages_are_here(board: Board) -> None:
    found = versions.packages(board.situation())
    assert found.level == "ok"
    assert "dbus-fast 5." in found.message
    assert "pytest" not in found.message
