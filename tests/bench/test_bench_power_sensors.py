"""Sensors against made-up sysfs trees and vcgencmd texts whose power is known."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from famulus.bench.power.hwmon import find_hwmon
from famulus.bench.power.pmic import COVERS, find_pmic, parse_rails
from famulus.bench.power.rapl import find_rapl
from famulus.bench.power.rate import DEFAULT_S, detect_interval
from famulus.bench.power.sensor import Sensor
from famulus.bench.power.supply import find_supplies

PI5 = """\
 3V7_WL_SW_A current(0)=0.10000000A
   3V3_SYS_A current(1)=0.20000000A
  VDD_CORE_A current(7)=2.00000000A
    HDMI_V volt(23)=5.10000000V
 3V7_WL_SW_V volt(8)=3.70000000V
   3V3_SYS_V volt(9)=3.30000000V
  VDD_CORE_V volt(15)=0.75000000V
     EXT5V_V volt(24)=5.15000000V
      BATT_V volt(25)=0.00000000V
"""
PI5_WATTS = 0.1 * 3.7 + 0.2 * 3.3 + 2.0 * 0.75


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def watts(sensor: Sensor) -> float:
    reading = sensor.read()
    assert reading is not None and reading.watts is not None
    return reading.watts


def jetson(root: Path, number: int, order: Sequence[str]) -> Path:
    rails = {"VDD_IN": (5000, 1800), "VDD_CPU_GPU_CV": (5000, 600), "VDD_SOC": (5000, 400)}
    files: dict[str, object] = {"name": "ina3221"}
    for channel, label in enumerate(order, 1):
        files |= {f"in{channel}_label": label, f"in{channel}_input": rails[label][0]}
        files[f"curr{channel}_input"] = rails[label][1]
    return write(root / f"sys/class/hwmon/hwmon{number}", **files)


@pytest.mark.parametrize("number", [0, 7])
@pytest.mark.parametrize("order", [("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), ("VDD_SOC", "VDD_IN", "VDD_CPU_GPU_CV")])
def test_jetson_rails_are_found_by_label_whatever_their_numbers(
    tmp_path: Path, number: int, order: tuple[str, ...]
) -> None:
    write(tmp_path / "sys/class/hwmon/hwmon3", name="cpu_thermal", temp1_input=50000)
    jetson(tmp_path, number, order)
    found = {sensor.name: (sensor.covers, watts(sensor)) for sensor in find_hwmon(tmp_path).sensors}
    assert found == {
        "ina3221 VDD_IN": ("the board's input", 9.0),
        "ina3221 VDD_CPU_GPU_CV": ("one rail of the board, not the whole", 3.0),
        "ina3221 VDD_SOC": ("one rail of the board, not the whole", 2.0),
    }


def test_a_device_that_only_its_i2c_driver_lists_is_found_once(tmp_path: Path) -> None:
    device = jetson(tmp_path, 1, ("VDD_IN",))
    link = tmp_path / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon"
    link.mkdir(parents=True)
    (link / "hwmon1").symlink_to(device)
    assert len(find_hwmon(tmp_path).sensors) == 1


def test_missing_and_disabled_rails_are_left_out_with_a_reason(tmp_path: Path) -> None:
    device = jetson(tmp_path, 1, ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"))
    (device / "in2_enable").write_text("0\n")
    (device / "curr3_input").write_text("")  # as a driver that answers with an error
    found = find_hwmon(tmp_path)
    assert [sensor.name for sensor in found.sensors] == ["ina3221 VDD_IN"]
    assert found.reasons == ("ina3221 VDD_SOC is there but gives no value (a disabled channel?)",)


def test_the_sum_of_shunts_and_unconnected_channels_are_no_rails(tmp_path: Path) -> None:
    write(
        tmp_path / "sys/class/hwmon/hwmon0",
        name="ina3221",
        in1_label="NC",
        in1_input=1,
        curr1_input=1,
        in4_label="sum of shunt voltages",
        in4_input=1,
        curr4_input=1,
    )
    assert find_hwmon(tmp_path).sensors == ()


def test_power_in_microwatts_wins_over_volts_and_amperes(tmp_path: Path) -> None:
    write(
        tmp_path / "sys/class/hwmon/hwmon0",
        name="ina226",
        update_interval=35,
        power1_input=2_500_000,
        in1_input=5000,
        curr1_input=490,
    )
    (sensor,) = find_hwmon(tmp_path).sensors
    assert (sensor.name, sensor.covers) == ("ina226 channel 1", "what is wired through this sensor")
    assert (watts(sensor), sensor.interval_s) == (2.5, 0.035)


def test_rails_of_a_pi_5_are_paired_and_what_has_no_pair_is_left_out() -> None:
    rails = parse_rails(PI5)
    assert sorted(rails) == ["3V3_SYS", "3V7_WL_SW", "VDD_CORE"]
    assert sum(rails.values()) == pytest.approx(PI5_WATTS)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("=", " = "),
        lambda text: "\r\n".join(reversed(text.splitlines())),
        lambda text: text.replace("current(", "current[").replace("volt(", "volt[").replace(")=", "]="),
        lambda text: text.replace("0.10000000A", "100.0mA").replace("0.20000000A", "2.0e-1A"),
        lambda text: "PMIC ADC:\n" + text + "\nnot a rail\nX_A current(40)=abcA\n",
    ],
)
def test_other_forms_of_the_text_give_the_same_power(change: object) -> None:
    assert callable(change)
    assert sum(parse_rails(change(PI5)).values()) == pytest.approx(PI5_WATTS)


def test_a_pi_5_is_told_to_miss_the_input_side_and_a_lost_rail_gives_no_reading() -> None:
    texts = [PI5, PI5, PI5.replace("VDD_CORE_A", "VDD_GONE_A"), ""]
    found = find_pmic(lambda _: texts.pop(0))
    (sensor,) = found.sensors
    assert sensor.covers == COVERS == "rails only, misses the input side"
    assert watts(sensor) == pytest.approx(PI5_WATTS)
    assert sensor.read() is None
    assert sensor.read() is None


def test_without_vcgencmd_there_is_nothing_to_say_and_an_older_pi_is_told_apart() -> None:
    assert find_pmic(lambda _: None).reasons == ()
    assert "only a Raspberry Pi 5" in find_pmic(lambda _: "error=1\n").reasons[0]


def test_rapl_counts_on_through_a_wrap_and_leaves_parts_of_a_package_out(tmp_path: Path) -> None:
    zone = write(
        tmp_path / "sys/class/powercap/intel-rapl:0", name="package-0", energy_uj=990_000, max_energy_range_uj=1_000_000
    )
    write(tmp_path / "sys/class/powercap/intel-rapl:0:0", name="core", energy_uj=5)
    write(tmp_path / "sys/class/powercap/intel-rapl-mmio:0", name="package-0", energy_uj=5)
    (sensor,) = find_rapl(tmp_path).sensors
    assert (sensor.name, sensor.covers) == ("RAPL package-0", "the processor package, not the board")
    first = sensor.read()
    (zone / "energy_uj").write_text("20000\n")
    second = sensor.read()
    assert first is not None and second is not None
    assert (first.joules, second.joules) == (0.0, pytest.approx(0.03))


def test_a_counter_that_only_root_may_read_is_named(tmp_path: Path) -> None:
    zone = write(tmp_path / "sys/class/powercap/intel-rapl:0", name="package-0")
    (zone / "energy_uj").mkdir()  # exists, and reading it fails for root too
    assert find_rapl(tmp_path).reasons == ("RAPL package-0 is there but may be read by root only: run this as root",)


@pytest.mark.parametrize(
    "files",
    [
        {"power_now": 7_500_000},
        {"voltage_now": 7_500_000, "current_now": 1_000_000},
        {"voltage_now": 7_500_000, "current_now": -1_000_000},
    ],
)
def test_a_battery_is_read_while_it_feeds_the_machine(tmp_path: Path, files: dict[str, int]) -> None:
    folder = write(tmp_path / "sys/class/power_supply/BAT0", type="Battery", status="Discharging", **files)
    (sensor,) = find_supplies(tmp_path).sensors
    assert (sensor.name, watts(sensor)) == ("battery BAT0", 7.5)
    (folder / "status").write_text("Charging\n")
    assert sensor.read() is None


def test_a_charging_battery_and_a_mouse_are_not_the_machine(tmp_path: Path) -> None:
    write(tmp_path / "sys/class/power_supply/BAT0", type="Battery", status="Charging", power_now=1)
    write(tmp_path / "sys/class/power_supply/mouse", type="Battery", status="Discharging", scope="Device", power_now=1)
    write(tmp_path / "sys/class/power_supply/AC", type="Mains", online=1)
    found = find_supplies(tmp_path)
    assert found.sensors == ()
    assert [reason.split(":")[0] for reason in found.reasons] == ["battery BAT0 is charging"]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("period", [0.03, 0.1, 0.25])
def test_the_rate_of_a_sensor_is_seen_from_its_changes(period: float) -> None:
    clock = Clock()
    found = detect_interval(lambda: int(clock.now / period), clock, clock.sleep)
    assert found == pytest.approx(period, rel=0.2)


def test_a_steady_value_is_read_once_a_second_and_a_fast_one_not_faster_than_it_pays() -> None:
    clock = Clock()
    assert detect_interval(lambda: 1.0, clock, clock.sleep) == DEFAULT_S
    assert detect_interval(lambda: clock.now, clock, clock.sleep) == 0.02
