"""``python docs/results.py``: renew the tables of docs/measuring.md from the files in bench/results/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/measuring.md"
BEGIN = "<!-- results: made by python docs/results.py -->"
END = "<!-- /results -->"


def renewed(page: str) -> str:
    """The page with the results of today."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    lines = [line for file in sorted(ROOT.glob("bench/results/*.json")) for line in table(file)]
    body = "\n".join(lines) or "None are published yet.\n"
    return f"{before}{BEGIN}\n\n{body}\n{END}{after}"


def table(file: Path) -> Iterator[str]:
    """What the page says of one file."""
    body: dict[str, Any] = json.loads(file.read_text("utf-8"))
    machine, load = body["machine"], body["machine"].get("load_1min")
    memory = f"{machine['memory_mb'] / 1000:.0f} GB" if machine.get("memory_mb") else ""
    facts = [machine.get("board") or machine.get("cpu"), f"{machine['cores']} cores", memory, machine.get("system")]
    loaded = "" if load is None else f" The load of the machine was {load:g} before the run."
    yield f"### {file.stem}"
    yield ""
    yield f"[{file.name}](../bench/results/{file.name}), {body['when'][:10]}. {', '.join(filter(None, facts))}.{loaded}"
    yield ""
    yield from (f"- {note}" for note in (*body["notes"], f"Parameters: `{json.dumps(body['parameters'])}`"))
    yield ""
    yield "| subject | figure | median | nine of ten | n | budget |"
    yield "|---|---|---|---|---|---|"
    for one in body["measurements"]:
        if one["n"]:
            figures = f"{_short(one['median'])} {one['unit'] or 'times'} | {_short(one['p90'])} | {one['n']}"
            yield f"| {one['subject']} | {one['figure']} | {figures} | {one['budget']} |"
    yield ""


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
