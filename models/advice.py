"""Which models fit a board together, and with what settings.

The sums are those of the daemon's memory guard: what is recommended here is let in there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .board import Board
from .catalogue import ModelEntry, Role
from .progress import human_size

Need = Callable[[ModelEntry, int], int]
"""Bytes that a model takes once loaded, by its entry and the context in tokens."""

ROLES: tuple[Role, ...] = ("asr", "llm", "embedder")
_MB = 1_000_000
_SMALL_BOARD = 1_200 * _MB
_DISK_SPARE = 500 * _MB
_LARGE_BOARD = 6_000 * _MB
_BASE = 250 * _MB
"""The system and the daemon: a headless Debian takes 120 to 180 MB, famulus without models 70."""


@dataclass(frozen=True)
class Choice:
    """One model for one role; ``need`` and ``disk`` in bytes, ``disk`` 0 where it is here already."""

    entry: ModelEntry
    need: int
    disk: int
    reason: str


@dataclass(frozen=True)
class Advice:
    """``settings``: section → key → value, for famulus.toml. ``passed_over``: id → why it was not chosen."""

    board: Board
    budget: int
    reserve: int
    choices: dict[Role, Choice]
    settings: dict[str, dict[str, Any]]
    passed_over: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def advise(
    board: Board,
    entries: Iterable[ModelEntry],
    *,
    need: Need,
    supported: Callable[[ModelEntry], bool],
    present: Callable[[ModelEntry], bool],
    language: str = "",
) -> Advice:
    """The ablest model of each role that ``board`` can hold, the language model last: it is the one to cut down.

    ``language`` leaves out what does not understand it.
    """
    entries = tuple(entries)
    small = board.memory < _SMALL_BOARD
    reserve = (60 if small else 150) * _MB
    budget = min(board.memory * 3 // 4, board.memory - _BASE - reserve)
    context = 1024 if small else 4096 if board.memory >= _LARGE_BOARD else 2048
    passed_over: dict[str, str] = {}
    choices: dict[Role, Choice] = {}
    disk_left = board.disk_free - _DISK_SPARE
    for role in ROLES:
        for entry in sorted((one for one in entries if one.role == role), key=lambda one: -one.quality):
            disk = 0 if present(entry) else entry.size
            bytes_needed = need(entry, context)
            why_not = ""
            if language and entry.languages and language not in entry.languages:
                why_not = f"does not understand {language}"
            elif bytes_needed > budget:
                why_not = f"needs {human_size(bytes_needed)} of memory, and models may take {human_size(budget)}"
            elif disk > disk_left:
                why_not = f"needs {human_size(disk)} of disk, and {human_size(max(disk_left, 0))} can be spared"
            elif not supported(entry):
                why_not = "would fit, but this version cannot load it"
            elif role in choices:
                why_not = f"{choices[role].entry.id} is the abler one"
            if why_not:
                passed_over[entry.id] = why_not
                continue
            choices[role] = Choice(entry, bytes_needed, disk, _reason(entry, bytes_needed, budget))
            disk_left -= disk
    together = sum(choice.need for choice in choices.values())
    return Advice(
        board=board,
        budget=budget,
        reserve=reserve,
        choices=choices,
        settings=_settings(board, choices, together, context=context, budget=budget, reserve=reserve),
        passed_over=passed_over,
        warnings=tuple(_warnings(board, choices, together, budget=budget, reserve=reserve)),
    )


def _reason(entry: ModelEntry, need: int, budget: int) -> str:
    languages = f"; understands {', '.join(entry.languages)}" if entry.languages else ""
    return f"{100 * need // max(budget, 1)}% of what models may take{languages}"


def _settings(
    board: Board, choices: dict[Role, Choice], together: int, *, context: int, budget: int, reserve: int
) -> dict[str, dict[str, Any]]:
    # What fits together stays; what does not makes room soon, so that the other one need not push it out.
    keep_alive = -1 if together <= budget // 2 else 300 if together <= budget else 60
    settings: dict[str, dict[str, Any]] = {}
    if "asr" in choices:
        settings["asr"] = {"model": choices["asr"].entry.id, "threads": 1, "keep_alive_s": keep_alive}
    if "llm" in choices:
        threads = max(1, board.cores - 1)
        llm = {"model": choices["llm"].entry.id, "threads": threads, "context": context, "keep_alive_s": keep_alive}
        settings["llm"] = llm
    else:
        settings["llm"] = {"model": ""}
    if "embedder" in choices:
        settings["embedder"] = {"model": choices["embedder"].entry.id, "keep_alive_s": keep_alive}
    settings["memory"] = {"budget_mb": budget // _MB, "reserve_mb": reserve // _MB}
    return settings


def _warnings(board: Board, choices: dict[Role, Choice], together: int, *, budget: int, reserve: int) -> Iterable[str]:
    if "llm" not in choices:
        yield "No language model fits: famulus understands the sentences its commands declare, and no others."
    if "asr" not in choices:
        yield "No speech recognition fits: famulus answers typed text only."
    if together > budget:
        yield (
            f"Together they need {human_size(together)}, more than the {human_size(budget)} that models may take: "
            "they take turns, and each change costs a load."
        )
    largest = max((choice.need for choice in choices.values()), default=0)
    if largest + reserve > board.memory_free:
        yield (
            f"Just now only {human_size(board.memory_free)} of memory are free and {human_size(largest + reserve)} are "
            "wanted: end what else runs, or stop famulus before you ask again."
        )
    if board.architecture in ("armv6l", "armv7l"):
        yield "This system is 32-bit; install a 64-bit one: several libraries have no 32-bit build."
