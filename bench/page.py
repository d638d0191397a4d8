"""A report as a page for people who have never seen the project: Markdown, or one HTML file that needs no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from .plots import MISSING, plots
from .report import Report, Table, machine_line, numeric_columns, shown

_WHAT = (
    "famulus is a private voice-and-text agent for Linux boards: it listens for a wake word, understands speech and "
    "text on the device, and runs what the board's apps can do. This page is one benchmark of it on one machine."
)
_READING = (
    "Every figure was taken n times after a warm-up; median, the value that nine of ten samples stay within (p90), and "
    "the extremes are shown. An empty cell was not measured, and the page says why. A budget is what the project aims "
    "at; it is shown beside the figure and never decides whether the run is good."
)
_COMPARING = (
    "A verdict compares the raw samples of two runs by a rank test at 99 %: the range in brackets is where the true "
    "ratio lies. Another load or another room temperature between two runs shows as a difference too."
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.when { color: #777; margin-top: 0; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .7rem; border-bottom: 1px solid #8884; vertical-align: top; }
th { border-bottom: 2px solid #8888; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.bad td { background: #d9302522; } tr.good td { background: #1e8e3e22; }
.bad-note { color: #b3261e; font-weight: 600; } figure { margin: 1rem 0; background: #fff; padding: .5rem; }
figcaption { color: #333; font-weight: 600; } svg { max-width: 100%; height: auto; }
"""


def to_markdown(report: Report) -> str:
    """The report as GitHub-flavoured Markdown, without pictures."""
    lines = [f"# famulus benchmark: {report.suite}", "", f"{report.when}. {_verdict(report)}", "", _WHAT, ""]
    if report.about:
        lines += [f"This suite measures {report.about}.", ""]
    lines += [f"It ran on: {_markdown_text(machine_line(report.machine))}.", ""]
    lines += ["## How to read it", "", *(f"- {_markdown_text(note)}" for note in _notes(report)), ""]
    for table in report.all_tables():
        lines += [f"## {_title(table)}", "", *_markdown_table(table), ""]
    lines += ["## Parameters", "", *_markdown_table(_parameter_table(report)), ""]
    lines += ["## The machine", "", *_markdown_table(_machine_table(report))]
    return "\n".join(lines) + "\n"


def to_html(report: Report) -> str:
    """The report as one HTML file with its pictures in it."""
    pictures = plots(report.measurements)
    notes = _notes(report)
    if pictures is None and report.measurements:
        notes.append(MISSING)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>famulus benchmark: {escape(report.suite)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>famulus benchmark: {escape(report.suite)}</h1>",
        f'<p class="when">{escape(report.when)}. {escape(_verdict(report))}</p>',
        f"<p>{escape(_WHAT)}</p>",
    ]
    if report.about:
        parts.append(f"<p>This suite measures {escape(report.about)}.</p>")
    parts.append(f"<p>It ran on: {escape(machine_line(report.machine))}.</p>")
    regressions = report.comparison.regressions if report.comparison else []
    parts += [
        f'<p class="bad-note">Regression: {escape(v.measurement.subject)}, {escape(v.measurement.figure)}: '
        f"{escape(v.text)}.</p>"
        for v in regressions
    ]
    parts += ["<h2>How to read it</h2><ul>", *(f"<li>{escape(note)}</li>" for note in notes), "</ul>"]
    for table in report.tables:
        parts += [f"<h2>{escape(_title(table))}</h2>", _html_table(table)]
    if pictures:
        parts += ["<h2>The measurements as pictures</h2>", "<p>Each dot is one sample, the red line their median.</p>"]
        parts += [
            f"<figure><figcaption>{escape(title)}</figcaption>{_own_ids(svg, number)}</figure>"
            for number, (title, svg) in enumerate(pictures)
        ]
    for table in report.all_tables()[len(report.tables) :]:
        parts += [f"<h2>{escape(_title(table))}</h2>", _html_table(table)]
    parts += ["<h2>Parameters</h2>", _html_table(_parameter_table(report))]
    parts += ["<h2>The machine</h2>", _html_table(_machine_table(report)), "</body></html>"]
    return "\n".join(parts) + "\n"


def _verdict(report: Report) -> str:
    if not report.ok:
        return "Something went wrong in this run; see below."
    if report.comparison is not None and report.comparison.regressions:
        return f"The run went through; {len(report.comparison.regressions)} figures are worse than before."
    return "The run went through."


def _notes(report: Report) -> list[str]:
    notes = [_READING]
    if report.comparison is not None:
        notes.append(_COMPARING)
    return notes + report.remarks()


def _title(table: Table) -> str:
    return table.title[:1].upper() + table.title[1:]


def _machine_table(report: Report) -> Table:
    machine = report.machine
    models = {name: ", ".join(f"{file} {sha[:12]}" for file, sha in files.items()) for name, files in _models(machine)}
    rows = [(key.replace("_", " "), value) for key, value in machine.items() if key not in ("packages", "models")]
    rows += [(name, version) for name, version in machine["packages"].items()]
    rows += [(f"model {name} (sha256)", text) for name, text in models.items()]
    rows += [
        (f"condition {when}", condition.text())
        for when, condition in (("before", report.before), ("after", report.after))
        if condition is not None
    ]
    return Table(
        "the machine", ("what", "value"), tuple((name, "not known" if v is None else str(v)) for name, v in rows)
    )


def _models(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    yield from machine["models"].items()


def _parameter_table(report: Report) -> Table:
    return Table("parameters", ("parameter", "value"), tuple((k, str(v)) for k, v in report.parameters.items()))


def _markdown_table(table: Table) -> list[str]:
    numeric = numeric_columns(table)
    rows = [[_markdown_text(shown(cell)) for cell in row] for row in table.rows]
    return [
        "| " + " | ".join(table.columns) + " |",
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _markdown_text(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;")


def _html_table(table: Table) -> str:
    numeric = numeric_columns(table)
    kinds = [' class="n"' if right else "" for right in numeric]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(table.columns, kinds, strict=True))
    body = []
    for row in table.rows:
        cells = "".join(f"<td{kind}>{escape(shown(cell))}</td>" for cell, kind in zip(row, kinds, strict=True))
        body.append(f"<tr{_row_class(row)}>{cells}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>\n' + "\n".join(body) + "</table></div>"


def _row_class(row: tuple[Any, ...]) -> str:
    """Colour for the rows of a comparison, whose last cell is the verdict."""
    last = str(row[-1]) if row else ""
    if re.match(r"(slower|worse) \d", last):
        return ' class="bad"'
    return ' class="good"' if re.match(r"(faster|better) \d", last) else ""


def _own_ids(svg: str, number: int) -> str:
    """Several pictures in one page: the ids of each must be its own."""
    svg = re.sub(r'\bid="', f'id="p{number}-', svg)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>p{number}-", svg)
