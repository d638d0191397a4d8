from collections.abc import Sequence
from pathlib import Path

import pytest
from famulus.bench.condition import Condition, flags_now, read_condition, run_command, troubles
from famulus.bench.machine import changes, fingerprint, same_machine


def nothing(_: Sequence[str]) -> None:
    return None


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_machine_without_sensors_says_so(tmp_path: Path) -> None:
    condition = read_condition(tmp_path, nothing)
    assert (condition.celsius, condition.mhz, condition.throttle_events, condition.pi_flags) == ({}, None, None, None)
    assert condition.text().startswith("no temperature sensor, no throttle counter, load ")


def test_zones_clock_and_throttle_counters_are_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/class/thermal/thermal_zone0/type": "cpu\n",
            "sys/class/thermal/thermal_zone0/temp": "51250\n",
            "sys/class/thermal/thermal_zone1/type": "cpu\n",
            "sys/class/thermal/thermal_zone1/temp": "48000\n",
            "sys/class/thermal/thermal_zone2/temp": "broken\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "3\n",
            "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": "4\n",
        },
    )
    condition = read_condition(tmp_path, nothing)
    assert condition.celsius == {"cpu": 51.25, "cpu (thermal_zone1)": 48.0}
    assert (condition.mhz, condition.throttle_events) == (1500, 7)


@pytest.mark.parametrize("told", ["throttled=0x50005\n", "throttled=0x50005", "0x50005", "50005\n"])
def test_the_flags_of_a_raspberry_pi_are_read_in_any_form(tmp_path: Path, told: str) -> None:
    def run(argv: Sequence[str]) -> str | None:
        return {"get_throttled": told, "measure_temp": "temp=61.4'C\n"}[argv[1]]

    condition = read_condition(tmp_path, run)
    assert condition.pi_flags == 0x50005
    assert condition.celsius == {"vcgencmd": 61.4}
    assert flags_now(0x50005) == ["under-voltage", "throttled"]


def test_the_kernel_tells_the_flags_where_vcgencmd_is_not_installed(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/platform/soc/soc:firmware/get_throttled": "20000\n"})
    assert read_condition(tmp_path, nothing).pi_flags == 0x20000


def test_what_happened_during_the_run_is_told_and_what_was_before_is_not() -> None:
    calm = Condition({"cpu": 50.0}, throttle_events=5, pi_flags=0x40000)
    assert troubles(calm, calm) == []
    (throttled,) = troubles(calm, Condition({"cpu": 55.0}, throttle_events=8, pi_flags=0x40000))
    assert "throttled 3 times" in throttled
    (under,) = troubles(calm, Condition({"cpu": 55.0}, throttle_events=5, pi_flags=0x50000))
    assert "under-voltage during the run" in under
    (hot,) = troubles(calm, Condition({"cpu": 80.0}, throttle_events=5, pi_flags=0x40000))
    assert "30 °C hotter" in hot


def test_other_work_on_the_machine_is_told() -> None:
    (busy,) = troubles(Condition(load_1min=1.7), Condition(load_1min=2.0))
    assert busy.startswith("The machine had other work when this began (load 1.70)")
    assert troubles(Condition(load_1min=0.2), Condition(load_1min=2.0)) == []


def test_a_command_that_is_missing_or_fails_gives_nothing() -> None:
    assert run_command(["no-such-program"]) is None
    assert run_command(["false"]) is None
    assert run_command(["echo", "x"]) == "x\n"


def test_a_board_is_named_by_its_device_tree(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0",
            "proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0",
            "proc/cpuinfo": "processor : 0\nModel : Raspberry Pi 5\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand\n",
            "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "2400000\n",
            "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        },
    )
    machine = fingerprint(tmp_path)
    found = (machine["board"], machine["soc"], machine["governor"], machine["max_mhz"], machine["system"])
    assert found == (
        "Raspberry Pi 5 Model B Rev 1.0",
        "bcm2712",
        "ondemand",
        2400,
        "Debian GNU/Linux 12 (bookworm)",
    )


def test_versions_and_models_may_differ_on_the_same_machine_and_are_named() -> None:
    one = fingerprint()
    other = {
        **one,
        "kernel": "9.9",
        "packages": {**one["packages"], "hassil": "0.1"},
        "models": {**one["models"], "smollm2-135m": {"model": "f" * 64}},
    }
    assert same_machine(one, other)
    assert not same_machine(one, {**one, "cores": 128})
    said = "; ".join(changes(one, other))
    assert "kernel" in said and f"hassil {one['packages']['hassil']} -> 0.1" in said
    assert "model smollm2-135m b179c952 -> ffffffff" in said
    assert changes(one, one) == []
