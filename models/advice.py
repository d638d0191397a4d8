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

ROLES: tuple[Role, ...] = ("asr", "embedder", "llm")
"""In the order of choice: the language model gets what is left, for it is the one that comes in sizes."""
_MB = 1_000_000
_SMALL_BOARD = 1_200 * _MB
_DISK_SPARE = 500 * _MB
_LARGE_BOARD = 6_000 * _MB
_BASE = 200 * _MB
"""Without models: famulus takes 70 MB at most (its budget), a headless Debian about 130 (an estimate)."""


@dataclass(frozen=True)
class Choice:
    """One model for one role; ``need`` and ``disk`` in bytes, ``disk`` 0 where it is here already."""

    entry: ModelEntry
    need: int
    disk: int


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
    """The ablest model of each role that ``board`` can hold beside the others; failing that, at all.

    ``language`` leaves out what does not understand it.
    """
    entries = tuple(entries)
    reserve = (60 if board.memory < _SMALL_BOARD else 150) * _MB
    budget = max(min(board.memory * 3 // 4, board.memory - _BASE - reserve), _MB)
    context = 4096 if board.memory >= _LARGE_BOARD else 2048
    passed_over: dict[str, str] = {}
    choices: dict[Role, Choice] = {}
    disk_left = board.disk_free - _DISK_SPARE
    for role in ROLES:
        candidates: list[Choice] = []
        for entry in sorted((one for one in entries if one.role == role), key=lambda one: -one.quality):
            choice = Choice(entry, need(entry, context), 0 if present(entry) else entry.size)
            why_not = _why_not(choice, budget, disk_left, language)
            if not why_not and not supported(entry):
                why_not = "would fit, but this version cannot load it"
            if why_not:
                passed_over[entry.id] = why_not
            else:
                candidates.append(choice)
        left = budget - sum(choice.need for choice in choices.values())
        beside = [choice for choice in candidates if choice.need <= left]
        for chosen in (beside or candidates)[:1]:
            choices[role] = chosen
            disk_left -= chosen.disk
            for other in candidates:
                if other.entry.quality > chosen.entry.quality:
                    passed_over[other.entry.id] = (
                        f"needs {human_size(other.need)}, and {human_size(left)} are left for it"
                    )
                elif other is not chosen:
                    passed_over[other.entry.id] = f"{chosen.entry.id} is the abler one"
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


def _why_not(choice: Choice, budget: int, disk_left: int, language: str) -> str:
    if language and choice.entry.languages and language not in choice.entry.languages:
        return f"does not understand {language}"
    if choice.need > budget:
        return f"needs {human_size(choice.need)} of memory, and models may take {human_size(budget)}"
    if choice.disk > disk_left:
        return f"needs {human_size(choice.disk)} of disk, and {human_size(max(disk_left, 0))} can be spared"
    return ""


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
        yield "No language model of this version fits: famulus understands what its commands declare, and no more."
    if "asr" not in choices:
        yield "No speech recognition of this version fits: famulus answers typed text only."
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
