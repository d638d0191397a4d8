"""What is recommended fits the board, together where it can, and the daemon takes the settings as they are."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from famulus.core.errors import Failed
from famulus.daemon.cli.models import _is_supported
from famulus.daemon.cli.models_advice import as_text, as_toml
from famulus.daemon.models import need_bytes
from famulus.daemon.settings import Settings
from famulus.models.advice import Advice, advise
from famulus.models.board import Board, read_board
from famulus.models.catalogue import Catalogue

GB = 10**9


def board(
    memory: float, *, cores: int = 4, disk: float = 16, free: float | None = None, kind: str = "aarch64"
) -> Board:
    available = memory * 0.9 if free is None else free
    return Board("Test board", kind, cores, int(memory * GB), int(available * GB), int(disk * GB))


def advice_for(board: Board, *, here: bool = False, language: str = "") -> Advice:
    return advise(
        board,
        Catalogue.load().entries,
        need=need_bytes,
        supported=_is_supported,
        present=lambda _: here,
        language=language,
    )


def chosen(advice: Advice) -> dict[str, str]:
    return {role: choice.entry.id for role, choice in advice.choices.items()}


@pytest.mark.parametrize(
    ("memory", "llm"),
    [(0.42, None), (0.95, "smollm2-135m"), (1.9, "qwen3.5-0.8b"), (3.9, "qwen3.5-2b"), (8.2, "qwen3.5-2b")],
)
def test_the_ablest_language_model_beside_the_others_is_chosen(memory: float, llm: str | None) -> None:
    advice = advice_for(board(memory))
    assert chosen(advice).get("llm") == llm
    assert sum(choice.need for choice in advice.choices.values()) <= advice.budget or llm is None


@pytest.mark.parametrize("memory", [0.25, 0.42, 0.95, 1.9, 3.9, 8.2, 64])
@pytest.mark.parametrize("cores", [1, 4])
def test_the_lines_for_the_settings_are_settings(memory: float, cores: int) -> None:
    advice = advice_for(board(memory, cores=cores))
    settings = Settings.model_validate(tomllib.loads(as_toml(advice)))
    assert settings.llm.model == chosen(advice).get("llm", "")
    assert settings.llm.threads == (max(1, cores - 1) if "llm" in advice.choices else 0)
    assert (settings.memory.budget_mb + settings.memory.reserve_mb) * 10**6 < memory * GB
    assert all(choice.need <= advice.budget for choice in advice.choices.values())


def test_models_stay_loaded_where_there_is_room_and_make_way_where_there_is_none() -> None:
    assert advice_for(board(8.2)).settings["llm"]["keep_alive_s"] == -1
    assert advice_for(board(3.9)).settings["llm"]["keep_alive_s"] == 300
    tight = advice_for(board(0.42))
    assert tight.settings["asr"]["keep_alive_s"] == 60
    assert any("they take turns" in warning for warning in tight.warnings)


def test_what_a_version_cannot_load_is_passed_over_and_named() -> None:
    advice = advice_for(board(8.2))
    assert all(_is_supported(choice.entry) for choice in advice.choices.values())
    assert "mnn" not in "".join(chosen(advice).values())
    unsupported = [entry.id for entry in Catalogue.load().entries if not _is_supported(entry) and entry.role == "llm"]
    assert all("this version cannot load it" in advice.passed_over[model] for model in unsupported)


def test_a_language_rules_out_what_does_not_understand_it() -> None:
    advice = advice_for(board(8.2), language="zh")
    assert chosen(advice)["llm"] == "qwen3.5-2b"
    assert advice.passed_over["moonshine-tiny-en"] == "does not understand zh"


def test_a_full_disk_rules_out_what_is_not_here_yet() -> None:
    assert chosen(advice_for(board(8.2, disk=0.7)))["llm"] == "smollm2-135m"
    assert chosen(advice_for(board(8.2, disk=0.7), here=True))["llm"] == "qwen3.5-2b"


def test_memory_that_is_taken_just_now_and_a_32_bit_system_are_told() -> None:
    warnings = " ".join(advice_for(board(3.9, free=0.5, kind="armv7l")).warnings)
    assert "Just now only 500.0 MB of memory are free" in warnings
    assert "32-bit" in warnings


def test_people_are_told_numbers_and_what_to_run() -> None:
    told = as_text(advice_for(board(3.9)))
    assert "4 cores (aarch64), 3.9 GB of memory" in told
    assert "To fetch: famulus models pull moonshine-tiny-en use qwen3.5-2b" in told
    assert '[llm]\nmodel = "qwen3.5-2b"\nthreads = 3\ncontext = 2048\n' in told
    assert "To fetch" not in as_text(advice_for(board(3.9), here=True)).split("MEMORY")[0]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_board_is_read_from_its_kernel(tmp_path: Path) -> None:
    write(tmp_path / "proc/meminfo", "MemTotal:        8245632 kB\nMemFree: 1 kB\nMemAvailable:    7000000 kB\n")
    write(tmp_path / "proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
    write(tmp_path / "sys/devices/system/cpu/online", "0-2,5\n")
    found = read_board(tmp_path / "not/there/yet", root=tmp_path, architecture="aarch64")
    assert (found.name, found.architecture, found.cores) == ("Raspberry Pi 5 Model B Rev 1.0", "aarch64", 4)
    assert (found.memory, found.memory_free) == (8245632 * 1024, 7000000 * 1024)
    assert found.disk_free > 0


def test_an_unknown_board_is_one_core_and_no_name(tmp_path: Path) -> None:
    write(tmp_path / "proc/meminfo", "MemTotal: 1000 kB\n")
    found = read_board(tmp_path, root=tmp_path)
    assert (found.name, found.cores, found.memory_free) == ("unknown board", 1, 1024000)


def test_without_proc_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="is /proc mounted"):
        read_board(tmp_path, root=tmp_path)
