"""Folders that stand for boards: what Linux shows of each in /proc, /sys and /etc, as far as the doctor looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from famulus.daemon.doctor.finding import Finding
from famulus.daemon.doctor.machine import Machine
from famulus.daemon.doctor.service import Service
from famulus.daemon.doctor.situation import Situation
from famulus.daemon.settings import Settings

SYSTEMD = Path(__file__).parents[2] / "systemd"
NOW = 1_796_000_000  # 2026-11-30


@dataclass
class Board:
    """A root folder, and who asks there."""

    root: Path
    facts: dict[str, Any] = field(
        default_factory=lambda: {
            "user": "pi",
            "uid": 1000,
            "gids": frozenset({1000}),
            "now": lambda: NOW,
            "is_synchronised": lambda: True,
            "free_bytes": lambda _: 8_000_000_000,
        }
    )

    @property
    def machine(self) -> Machine:
        environ = {"PATH": str(self.root / "bin")}
        return Machine.below(self.root, environ=environ, **self.facts)

    def write(self, path: str, text: str) -> None:
        """``path`` below the root; a text ends with a newline as in sysfs."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") else f"{text}\n")

    def program(self, name: str, script: str) -> None:
        self.write(f"bin/{name}", f"#!/bin/sh\n{script}")
        (self.root / "bin" / name).chmod(0o755)

    def memory(self, total_mb: int, available_mb: int) -> None:
        rows = {"MemTotal": total_mb, "MemFree": available_mb // 2, "MemAvailable": available_mb}
        self.write("proc/meminfo", "\n".join(f"{name}:  {mb * 1_000_000 // 1024} kB" for name, mb in rows.items()))

    def zone(self, number: int, kind: str, millidegrees: int, trips: Mapping[str, int] = {}) -> None:
        zone = f"sys/class/thermal/thermal_zone{number}"
        self.write(f"{zone}/type", kind)
        self.write(f"{zone}/temp", str(millidegrees))
        for index, (trip, temperature) in enumerate(trips.items()):
            self.write(f"{zone}/trip_point_{index}_type", trip)
            self.write(f"{zone}/trip_point_{index}_temp", str(temperature))

    def cooler(self, number: int, kind: str, state: int) -> None:
        self.write(f"sys/class/thermal/cooling_device{number}/type", kind)
        self.write(f"sys/class/thermal/cooling_device{number}/cur_state", str(state))

    def disk(self, name: str, partition: str, number: str, kind: str = "") -> None:
        """A disk with one partition, as sysfs links them, and the root file system on it."""
        disk = self.root / "sys/devices/block" / name
        (disk / partition).mkdir(parents=True)
        (disk / partition / "partition").write_text("2\n")
        if kind:
            (disk / "device").mkdir()
            (disk / "device/type").write_text(f"{kind}\n")
        for link in (f"dev/block/{number}", f"class/block/{partition}"):
            at = self.root / "sys" / link
            at.parent.mkdir(parents=True, exist_ok=True)
            at.symlink_to(disk / partition)
        self.mount(number, f"/dev/{partition}")

    def mount(self, number: str, source: str, options: str = "rw,relatime", kind: str = "ext4") -> None:
        lines = [
            f"20 1 {number} / / {options} shared:1 - {kind} {source} {options}",
            "21 20 0:5 / /proc rw - proc proc rw",
        ]
        self.write("proc/self/mountinfo", "\n".join(lines))

    def install(self) -> None:
        """famulus as a system service, with the files of this repository."""
        self.write("etc/systemd/system/famulus.service", (SYSTEMD / "famulus.service").read_text())
        self.write("etc/dbus-1/system.d/org.famulus.Agent.conf", (SYSTEMD / "org.famulus.Agent.conf").read_text())
        self.group("famulus:x:990:pi", "audio:x:29:famulus")

    def group(self, *lines: str) -> None:
        self.write("etc/group", "\n".join(("root:x:0:", *lines)))

    def situation(self, service: Service | None = None, **sections: Mapping[str, Any]) -> Situation:
        """What the checks are given; ``sections`` are settings, the state lies where the unit has it."""
        own = {"storage": {"state": "/var/lib/famulus", "cache": "/var/cache/famulus"}}
        for section, values in sections.items():
            own[section] = {**own.get(section, {}), **values}
        return Situation(self.machine, Settings.model_validate(own), service=service or Service())


def short(finding: Finding) -> tuple[str, str]:
    return finding.level, finding.mend


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """A board that shows nothing at all."""
    (tmp_path / "bin").mkdir()
    return Board(tmp_path)


@pytest.fixture
def pi4(board: Board) -> Board:
    """A Raspberry Pi 4 with 2 GB and an SD card: no clock of its own, an alarm for its supply voltage."""
    board.write("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0")
    board.write("proc/sys/kernel/osrelease", "6.6.51+rpt-rpi-v8")
    board.memory(1900, 1500)
    board.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority")
    board.zone(0, "cpu-thermal", 51_600, {"critical": 110_000})
    board.cooler(0, "cpufreq-cpu0", 0)
    board.write("sys/class/hwmon/hwmon0/name", "cpu_thermal")
    board.write("sys/class/hwmon/hwmon0/temp1_input", "51600")
    board.write("sys/class/hwmon/hwmon1/name", "rpi_volt")
    board.write("sys/class/hwmon/hwmon1/in0_lcrit_alarm", "0")
    board.disk("mmcblk0", "mmcblk0p2", "179:2", "SD")
    board.program("vcgencmd", "echo throttled=0x0")
    board.install()
    return board


@pytest.fixture
def pi5(board: Board) -> Board:
    """A Raspberry Pi 5 with 8 GB, NVMe, a fan, and a clock with a battery."""
    board.write("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    board.memory(8100, 7000)
    board.write("proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 2097148 0 100")
    board.zone(0, "cpu-thermal", 60_000, {"critical": 110_000, "active": 50_000})
    board.cooler(0, "pwm-fan", 2)
    board.write("sys/class/rtc/rtc0/name", "rpi_rtc")
    board.write("sys/class/rtc/rtc0/battery_voltage", "3100000")
    board.disk("nvme0n1", "nvme0n1p2", "259:2")
    board.program("vcgencmd", "echo throttled=0x0")
    return board


@pytest.fixture
def jetson(board: Board) -> Board:
    """A Jetson Orin Nano: many zones, of which one is off and one shows nonsense; eMMC; alerts as cooling devices."""
    board.memory(7600, 5000)
    board.write(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/zram0 partition 650000 0 5\n/dev/zram1 partition 650000 0 5",
    )
    board.zone(0, "cpu-thermal", 62_000, {"passive": 99_000, "critical": 104_500})
    board.zone(1, "gpu-thermal", 63_000, {"passive": 99_000})
    (board.root / "sys/class/thermal/thermal_zone2/temp").mkdir(parents=True)  # cannot be read, like one that is off
    board.write("sys/class/thermal/thermal_zone2/type", "cv0-thermal")
    board.zone(3, "PMIC-Die", 100_000)
    for number, kind in enumerate(("pwm-fan", "cpufreq-cpu0", "devfreq-17000000.ga10b", "cpu-throttle-alert")):
        board.cooler(number, kind, 1 if kind == "pwm-fan" else 0)
    board.write("sys/class/hwmon/hwmon2/name", "soctherm_oc")
    board.write("sys/class/hwmon/hwmon2/oc3_event_cnt", "0")
    board.write("sys/class/rtc/rtc0/name", "c2a0000.rtc")
    board.disk("mmcblk0", "mmcblk0p1", "179:1", "MMC")
    return board


@pytest.fixture
def pc(board: Board) -> Board:
    """A PC without a thermal zone of its processor, with PipeWire and famulus as a service of the session."""
    board.memory(16_000, 9000)
    board.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda3 partition 8000000 0 -2")
    board.zone(0, "iwlwifi_1", 88_000)
    board.write("sys/class/hwmon/hwmon0/name", "k10temp")
    board.write("sys/class/hwmon/hwmon0/temp1_input", "45000")
    board.write("sys/class/rtc/rtc0/name", "rtc_cmos")
    board.disk("sda", "sda2", "8:2")
    board.write("home/.config/systemd/user/famulus.service", "[Service]")
    board.write("run/user/1000/pipewire-0", "")
    return board
