import importlib.util
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from famulus.bench import page, plots
from famulus.bench.compare import Earlier, judge
from famulus.bench.condition import Condition
from famulus.bench.report import Comparison, Report, Table, fingerprint, measured

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Nesting(HTMLParser):
    """Fails where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def report() -> Report:
    now = measured("famulus <b>", "first token", "ms", [200.0, 210, 205, 207, 203], budget="<= 500")
    empty = measured("energy", "machine idle", "W", (), reason="this machine has no power sensor")
    before = measured("famulus <b>", "first token", "ms", [100.0, 101, 102, 103, 104])
    machine = fingerprint()
    earlier = Earlier(Path("x/old.json"), "2026-01-01T00:00:00Z", {**machine, "kernel": "1.0"}, {"n": 4}, (before,))
    return Report(
        "llm",
        machine,
        {"n": 5},
        {},
        (Table("a | table", ("name", "n"), (("x|y", 1), (None, None))),),
        ("a note with <tags>",),
        measurements=(now, empty),
        about="the language model",
        before=Condition({"cpu": 40.0}),
        after=Condition({"cpu": 45.0}),
        comparison=Comparison(earlier, (judge(now, before), judge(empty, None))),
    )


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(page, "plots", lambda _: None)
    yield


def test_markdown_holds_everything_a_stranger_needs(report: Report) -> None:
    text = page.to_markdown(report)
    assert text.startswith("# famulus benchmark: llm\n")
    assert "private voice-and-text agent" in text and "measures the language model" in text
    assert "| famulus &lt;b> | first token | ms | 5 | 205 | 210 | 200 | 210 | <= 500 |" in text.replace("&lt;= ", "<= ")
    assert "this machine has no power sensor" in text
    assert "REGRESSION: famulus &lt;b>, first token: slower 2.01× (1.92–2.10)." in text
    assert "x\\|y" in text
    assert "changed since: kernel 1.0 ->" in text
    assert "The earlier run had other parameters" in text
    assert report.machine["models"]["smollm2-135m"]["model"][:12] in text
    assert "cpu 40.0 °C" in text and "cpu 45.0 °C" in text


def test_html_is_one_well_formed_file_that_loads_nothing(report: Report, no_matplotlib: None) -> None:
    text = page.to_html(report)
    nesting = Nesting()
    nesting.feed(text)
    assert nesting.open == []
    assert "famulus <b>" not in text and "famulus &lt;b&gt;" in text
    assert not re.search(r'(src|href)="http', text)
    assert '<tr class="bad">' in text
    assert plots.MISSING.replace("'", "&#x27;") in text


def test_a_report_without_measurements_needs_no_word_about_plots(report: Report, no_matplotlib: None) -> None:
    assert "matplotlib" not in page.to_html(replace(report, measurements=(), comparison=None))


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the extra bench is not installed")
def test_plots_are_inside_the_page(report: Report) -> None:
    text = page.to_html(report)
    assert text.count("<svg") == 1  # what has no sample has no plot
    assert plots.MISSING not in text
    nesting = Nesting()
    nesting.feed(text)
    assert nesting.open == []
