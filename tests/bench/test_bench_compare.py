import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from famulus.bench.compare import _critical, _rank_counts, judge, judge_all, latest, ratio_interval, read_earlier
from famulus.bench.measurement import Better, Measurement, measured
from famulus.core.errors import InvalidArguments, NotFound

MACHINE = {"board": "Pi 5", "soc": "bcm2712", "cpu": "A76", "cores": 4, "memory_mb": 8000, "architecture": "aarch64"}


def ms(*samples: float, better: Better = "lower", unit: str = "ms") -> Measurement:
    return measured("x", "time", unit, samples, better)


def noisy(middle: float, count: int, seed: int) -> list[float]:
    numbers = random.Random(seed)
    return [middle * numbers.lognormvariate(0, 0.05) for _ in range(count)]


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 3), (4, 3), (5, 5)])
def test_rank_counts_are_those_of_all_orderings(n: int, m: int) -> None:
    counts = [0] * (n * m + 1)
    for places in itertools.combinations(range(n + m), n):
        counts[sum(place - index for index, place in enumerate(places))] += 1
    assert list(_rank_counts(n, m)) == counts


def test_five_samples_each_tell_a_complete_separation_and_four_tell_nothing() -> None:
    assert _critical(5, 5) == 0
    assert _critical(4, 4) is None
    assert _critical(10, 10) == 16  # as in the tables of the Mann-Whitney test at 1 %, two-sided


def test_a_slower_figure_is_a_regression_with_its_range() -> None:
    verdict = judge(ms(*noisy(131, 15, 1)), ms(*noisy(100, 15, 2)))
    assert verdict.kind == "slower"
    assert verdict.regression
    assert verdict.ratio is not None and verdict.low is not None and verdict.high is not None
    assert verdict.low < 1.31 < verdict.high
    assert verdict.text.startswith("slower 1.3")
    assert "–" in verdict.text


def test_the_same_noise_twice_shows_no_difference() -> None:
    alarms = [judge(ms(*noisy(100, 8, seed)), ms(*noisy(100, 8, seed + 1000))).kind for seed in range(100)]
    assert alarms.count("same") >= 97


@pytest.mark.parametrize(
    ("new", "old", "better", "unit", "text"),
    [
        (50.0, 100.0, "lower", "ms", "faster 2.00× (1.9"),
        (100.0, 50.0, "higher", "tokens/s", "faster 2.00× (1.9"),
        (50.0, 100.0, "higher", "tokens/s", "slower 2.00× (1.9"),
        (200.0, 100.0, "lower", "MB", "worse 2.00× (1.9"),
        (50.0, 100.0, "lower", "J", "better 2.00× (1.9"),
        (200.0, 100.0, "", "MB", "changed 2.00× (1.9"),
        (102.0, 100.0, "lower", "ms", "within 5 % (1.0"),
    ],
)
def test_the_word_follows_the_unit_and_which_way_is_better(
    new: float, old: float, better: Better, unit: str, text: str
) -> None:
    steps = [0.995 + index * 0.001 for index in range(10)]
    verdict = judge(
        ms(*(new * step for step in steps), better=better, unit=unit),
        ms(*(old * step for step in steps), better=better, unit=unit),
    )
    assert verdict.text.startswith(text)
    assert verdict.regression == text.startswith(("slower", "worse"))


def test_what_cannot_be_told_is_said_and_never_a_regression() -> None:
    few = judge(ms(200, 201, 202), ms(100, 101, 102))
    assert (few.kind, few.text) == ("unknown", "1.99×, too few samples to tell (3)")
    assert judge(ms(1), None).text == "new: the earlier run did not measure it"
    assert judge(measured("x", "time", "ms", (), reason="no sensor"), ms(1)).text == "not measured now: no sensor"
    assert judge(ms(0, 0, 0), ms(1, 1, 1)).text.startswith("-1 ms")


def test_many_samples_are_thinned_and_still_told_apart() -> None:
    ratio, low, high = ratio_interval(noisy(110, 5000, 1), noisy(100, 5000, 2))
    assert low is not None and high is not None
    assert 1.05 < low < ratio < high < 1.15


def test_only_the_same_measurement_is_compared() -> None:
    verdicts = judge_all([ms(1), measured("y", "time", "ms", [1])], [ms(1)])
    assert [verdict.old is not None for verdict in verdicts] == [True, False]


def result(path: Path, when: str, *, suite: str = "s", machine: dict[str, Any] = MACHINE, **parameters: int) -> None:
    body = {"suite": suite, "when": when, "machine": machine, "parameters": parameters}
    path.write_text(json.dumps({**body, "measurements": [ms(1.0).to_dict()]}))


def test_the_newest_run_of_such_a_machine_with_these_parameters_is_found(tmp_path: Path) -> None:
    result(tmp_path / "a.json", "2026-01-01T00:00:00Z", n=1)
    result(tmp_path / "b.json", "2026-02-01T00:00:00Z", n=1)
    result(tmp_path / "c.json", "2026-03-01T00:00:00Z", n=2)
    result(tmp_path / "d.json", "2026-03-01T00:00:00Z", n=1, machine={**MACHINE, "memory_mb": 4000})
    result(tmp_path / "e.json", "2026-03-01T00:00:00Z", n=1, suite="other")
    (tmp_path / "f.json").write_text("[]")
    (tmp_path / "g.json").write_text("no JSON")
    (tmp_path / "h.json").write_text('{"suite": "s"}')
    found = latest(tmp_path, "s", {**MACHINE, "kernel": "newer"}, {"n": 1})
    assert found is not None
    assert found.path.name == "b.json"
    assert found.measurements == (ms(1.0),)
    assert latest(tmp_path / "none", "s", MACHINE, {}) is None


def test_a_bad_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="name a file that --json wrote"):
        read_earlier(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InvalidArguments, match="is not a result of famulus bench"):
        read_earlier(tmp_path / "x.json")
