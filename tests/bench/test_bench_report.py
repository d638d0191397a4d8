import json
from pathlib import Path

import pytest
from famulus.bench.report import Report, Table, fingerprint, machine_line, render, spread


def test_spread_of_nothing_is_empty_not_zero() -> None:
    assert spread([]) == {"n": 0, "median": None, "p90": None, "min": None, "max": None}


@pytest.mark.parametrize(
    ("values", "median", "p90"),
    [([3.0], 3.0, 3.0), ([1.0, 2.0, 3.0], 2.0, 3.0), ([float(n) for n in range(1, 11)], 5.5, 9.0)],
)
def test_p90_is_a_value_that_was_seen(values: list[float], median: float, p90: float) -> None:
    found = spread(values[::-1])
    assert (found["n"], found["median"], found["p90"]) == (len(values), median, p90)
    assert (found["min"], found["max"]) == (min(values), max(values))


def test_table_aligns_and_leaves_unmeasured_cells_empty() -> None:
    table = Table("t", ("name", "ms"), (("a", 1.234), ("longer", None), ("b", 123.4)))
    assert render(table).splitlines() == [
        "  name      ms",
        "  ------  ----",
        "  a       1.23",
        "  longer",
        "  b        123",
    ]


def test_table_without_rows_shows_its_head() -> None:
    assert render(Table("t", ("a",), ())).splitlines() == ["  a", "  -"]


def test_fingerprint_names_machine_versions_and_models() -> None:
    machine = fingerprint()
    assert machine["cores"] >= 1
    assert machine["memory_mb"] > 0
    assert machine["packages"]["numpy"]
    assert len(machine["models"]["smollm2-135m"]["model"]) == 64
    assert str(machine["cores"]) in machine_line(machine)


def test_json_holds_results_parameters_and_machine(tmp_path: Path) -> None:
    report = Report("idle", fingerprint(), {"seconds": 3}, {"rss": 1.5}, (Table("t", ("a",), ((1,),)),), ("a note",))
    report.write_json(tmp_path / "new" / "out.json")
    body = json.loads((tmp_path / "new" / "out.json").read_text())
    assert (body["suite"], body["parameters"], body["results"]) == ("idle", {"seconds": 3}, {"rss": 1.5})
    assert body["machine"]["kernel"]
    assert "a note" in report.text()
