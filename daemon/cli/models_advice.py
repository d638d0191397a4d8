"""How ``famulus models recommend`` tells what fits: for people, with lines to paste, and for programs."""

from __future__ import annotations

import json
from typing import Any

from ...models.advice import Advice
from ...models.progress import human_size
from ..settings import Settings


def as_text(advice: Advice) -> str:
    """The board, what was chosen and why, and the lines for famulus.toml."""
    board = advice.board
    lines = [
        f"This board: {board.name}, {board.cores} cores ({board.architecture}), {human_size(board.memory)} of memory "
        f"({human_size(board.memory_free)} free now), {human_size(board.disk_free)} of disk free for models",
        f"Models may take {human_size(advice.budget)}; {human_size(advice.reserve)} stay in reserve",
        "",
    ]
    table = [("FOR", "MODEL", "MEMORY", "OF BUDGET", "TO FETCH", "UNDERSTANDS")]
    for role, choice in advice.choices.items():
        fetch = human_size(choice.disk) if choice.disk else "-"
        share = f"{100 * choice.need // advice.budget}%"
        languages = ", ".join(choice.entry.languages) or "-"
        table.append((role, choice.entry.id, human_size(choice.need), share, fetch, languages))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    if advice.passed_over:
        lines += ["", "Not chosen:", *(f"  {model}: {why}" for model, why in advice.passed_over.items())]
    if advice.warnings:
        lines += ["", *(f"Note: {warning}" for warning in advice.warnings)]
    if to_fetch := [choice.entry.id for choice in advice.choices.values() if choice.disk]:
        lines += ["", f"To fetch: famulus models pull {' '.join(to_fetch)}"]
    return "\n".join([*lines, "", "For famulus.toml:", "", as_toml(advice)])


def as_toml(advice: Advice) -> str:
    """The settings as TOML, without sections that this version does not have."""
    sections = []
    for section, values in _known(advice).items():
        sections.append("\n".join([f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]))
    return "\n\n".join(sections)


def as_facts(advice: Advice) -> dict[str, Any]:
    """All of it as JSON values; sizes in bytes."""
    board = advice.board
    return {
        "board": {
            "name": board.name,
            "architecture": board.architecture,
            "cores": board.cores,
            "memory": board.memory,
            "memory_free": board.memory_free,
            "disk_free": board.disk_free,
        },
        "budget": advice.budget,
        "reserve": advice.reserve,
        "choices": {
            role: {"id": choice.entry.id, "memory": choice.need, "to_fetch": choice.disk}
            for role, choice in advice.choices.items()
        },
        "passed_over": advice.passed_over,
        "warnings": list(advice.warnings),
        "settings": _known(advice),
        "toml": as_toml(advice),
    }


def _known(advice: Advice) -> dict[str, dict[str, Any]]:
    return {section: values for section, values in advice.settings.items() if section in Settings.model_fields}
