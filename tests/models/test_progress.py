from __future__ import annotations

import io

import pytest
from famulus.models.progress import Bar, Lines, human_size, human_time, progress_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_that_is_cleared_at_the_end() -> None:
    stream = Terminal()
    bar = progress_for(stream)
    assert isinstance(bar, Bar)
    bar.every_s = 0
    bar.start("toy", 1000)
    bar.update(500)
    bar.finish()
    assert "toy [############------------]  50% 500 B of 1.0 kB" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_bar_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    Bar(stream).start("a-model-with-a-long-name", 1000)
    assert stream.getvalue() == "\r\x1b[K  a-model-with-a-lo"


def test_a_log_gets_plain_lines() -> None:
    stream = io.StringIO()
    lines = progress_for(stream)
    assert isinstance(lines, Lines)
    lines.every_s = 0
    lines.start("toy", 2_000_000)
    lines.update(3_000_000)  # a source that gives more than it said
    lines.finish()
    assert stream.getvalue().startswith("  toy: 100% of 2.0 MB, ")


def test_lines_are_rare() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.start("toy", 100)
    for done in range(100):
        lines.update(done)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (98362432, "98.4 MB"), (5 * 10**12, "5000.0 GB")]
)
def test_sizes_read_well(size: int, text: str) -> None:
    assert human_size(size) == text


def test_the_pace_counts_only_what_came_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream)
    lines.every_s = 1
    lines.start("toy", 10_000_000, 4_000_000)
    for _ in range(3):
        now[0] += 1
        lines.update(4_000_000 + int(now[0] - 100) * 10_000)
    assert stream.getvalue().splitlines()[-1] == "  toy: 40% of 10.0 MB, 10.0 kB/s, 10 min left"
    lines.update(0)
    now[0] += 1
    lines.update(20_000)
    assert stream.getvalue().splitlines()[-1] == "  toy: 0% of 10.0 MB"


def test_a_sentence_does_not_run_into_the_bar() -> None:
    stream = Terminal()
    bar = Bar(stream)
    bar.start("toy", 1000)
    bar.say("Trying again.")
    assert stream.getvalue().endswith("\r\x1b[KTrying again.\n")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (3599, "1 h 0 min"), (8000, "2 h 13 min")]
)
def test_times_read_well(seconds: float, text: str) -> None:
    assert human_time(seconds) == text
