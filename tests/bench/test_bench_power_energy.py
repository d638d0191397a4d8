"""Energy by a fake clock over made-up sensors: within 1 % of what is known, or no figure at all."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from famulus.bench.__main__ import main
from famulus.bench.power.cost import Figure, base_note, costs
from famulus.bench.power.meter import MeterFile, parse_columns
from famulus.bench.power.options import with_energy
from famulus.bench.power.recorder import NO_SENSOR, Recorder, Source, Span
from famulus.bench.power.trace import Trace
from famulus.bench.report import Report, fingerprint
from famulus.core.errors import InvalidArguments, NotFound


class World:
    """A machine whose draw is known at every moment, seen through sysfs files. Time moves only by ``run``."""

    def __init__(self, root: Path, draw: Callable[[float], float]) -> None:
        self.root = root
        self.draw = draw
        self.now = 1000.0
        self.wall_offset = 1.7e9
        self.update_s = 0.0
        self.broken = False
        self.joules = 0.0
        self._shown = -1.0
        self.hwmon = root / "sys/class/hwmon/hwmon4"
        self.rapl = root / "sys/class/powercap/intel-rapl:0"

    def with_jetson(self, update_ms: int = 50) -> None:
        self.hwmon.mkdir(parents=True)
        (self.hwmon / "name").write_text("ina3221\n")
        (self.hwmon / "in1_label").write_text("VDD_IN\n")
        (self.hwmon / "update_interval").write_text(f"{update_ms}\n")
        self.update_s = update_ms / 1000
        self.show()

    def with_rapl(self, range_uj: int) -> None:
        self.rapl.mkdir(parents=True)
        (self.rapl / "name").write_text("package-0\n")
        (self.rapl / "max_energy_range_uj").write_text(f"{range_uj}\n")
        self.range_uj = range_uj
        self.show()

    def show(self) -> None:
        if self.hwmon.exists():
            moment = math.floor(self.now / self.update_s) * self.update_s
            if moment != self._shown or self.broken:
                self._shown = moment
                # Volts sag with the draw, as they do: both must be read.
                (self.hwmon / "in1_input").write_text("" if self.broken else "5000\n")
                (self.hwmon / "curr1_input").write_text(f"{self.draw(moment) / 5 * 1000:.3f}\n")
        if self.rapl.exists():
            (self.rapl / "energy_uj").write_text(f"{round(self.joules * 1e6) % self.range_uj}\n")

    def pass_time(self, seconds: float) -> None:
        steps = max(1, round(seconds / 0.004))
        for _ in range(steps):
            self.joules += self.draw(self.now + seconds / steps / 2) * seconds / steps
            self.now += seconds / steps
        self.show()

    def recorder(self, meter: MeterFile | None = None) -> Recorder:
        made = Recorder(
            root=self.root,
            meter=meter,
            run=lambda _: None,
            clock=lambda: self.now,
            wall=lambda: self.now + self.wall_offset,
            sleep=self.pass_time,
        )
        made.look()
        return made

    def run(self, recorder: Recorder, seconds: float) -> None:
        """Let the recorder work for that long."""
        end = self.now + seconds
        while self.now < end:
            due = recorder.step()
            self.pass_time(max(0.001, min(due, end) - self.now))
        recorder.step()


def steps(moment: float) -> float:
    """2 W, and 6 W in every third second."""
    return 6.0 if math.floor(moment) % 3 == 0 else 2.0


def ramp(moment: float) -> float:
    return 3.0 + math.sin(moment)


@pytest.mark.parametrize("draw", [steps, ramp, lambda _: 4.2])
@pytest.mark.parametrize("update_ms", [20, 50, 140])
def test_energy_of_a_power_sensor_is_within_one_percent(
    tmp_path: Path, draw: Callable[[float], float], update_ms: int
) -> None:
    world = World(tmp_path, draw)
    world.with_jetson(update_ms)
    recorder = world.recorder()
    world.run(recorder, 1)
    before = world.joules
    with recorder.span("work"):
        world.run(recorder, 20)
    expected = world.joules - before
    world.run(recorder, 1)
    (source,) = recorder.sources()
    (span,) = recorder.spans
    assert source.trace.joules(span.start, span.end) == pytest.approx(expected, rel=0.01)


def test_a_sensor_is_not_read_oftener_than_it_has_values(tmp_path: Path) -> None:
    world = World(tmp_path, ramp)
    world.with_jetson(update_ms=200)
    recorder = world.recorder()
    world.run(recorder, 20)
    (source,) = recorder.sources()
    assert 95 <= source.trace.readings <= 105


def test_energy_of_a_counter_is_exact_through_many_wraps(tmp_path: Path) -> None:
    world = World(tmp_path, steps)
    world.with_rapl(range_uj=5_000_000)
    recorder = world.recorder()
    world.run(recorder, 1)
    before = world.joules
    with recorder.span("work"):
        world.run(recorder, 30)
    expected = world.joules - before
    assert expected > 80  # more than 15 wraps
    (source,) = recorder.sources()
    assert source.name == "RAPL package-0"
    (span,) = recorder.spans
    assert source.trace.joules(span.start, span.end) == pytest.approx(expected, rel=0.01)


def test_a_wall_clock_that_is_set_meanwhile_changes_nothing_and_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 3.0)
    world.with_jetson()
    recorder = world.recorder()
    world.run(recorder, 1)
    with recorder.span("work"):
        world.run(recorder, 5)
        world.wall_offset += 3600 * 24 * 365
        world.run(recorder, 5)
    assert recorder.clock_jump_s == pytest.approx(3600 * 24 * 365)
    (cell,) = costs([Figure("work", "work", "W")], recorder.spans, recorder.sources(), ())
    assert cell.samples == (pytest.approx(3.0, rel=0.01),)


def test_missing_readings_leave_the_cell_empty_with_the_reason(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 3.0)
    world.with_jetson()
    recorder = world.recorder()
    with recorder.span("with a hole"):
        world.run(recorder, 2)
        world.broken = True
        world.run(recorder, 2)
        world.broken = False
        world._shown = -1.0
        world.run(recorder, 2)
    with recorder.span("whole"):
        world.run(recorder, 2)
    hole, whole = costs(
        [Figure("a", "with a hole", "W"), Figure("b", "whole", "W")], recorder.spans, recorder.sources(), ()
    )
    assert (hole.samples, hole.reason) == ((), "readings are missing during it")
    assert whole.samples == (pytest.approx(3.0, rel=0.01),)


def test_a_stopped_recorder_is_a_gap_not_a_straight_line() -> None:
    trace = Trace(0.1)
    for at in (0.0, 0.1, 0.2, 5.0, 5.1, 5.2):
        trace.add_power(at, 1.0)
    assert trace.joules(0.0, 0.2) == pytest.approx(0.2)
    assert trace.joules(0.0, 5.2) is None
    assert trace.joules(5.0, 5.2) == pytest.approx(0.2)
    assert trace.joules(5.0, 9.0) is None
    assert trace.joules(0.2, 0.1) is None


def test_late_readings_of_a_busy_board_are_no_gap() -> None:
    trace = Trace(0.02)
    for at in (0.0, 0.02, 0.3, 0.32, 0.7):
        trace.add_power(at, 2.0)
    assert trace.joules(0.0, 0.7) == pytest.approx(1.4)
    counter = Trace(0.1)
    for at, joules in ((0.0, 0.0), (0.1, 0.2), (9.0, 17.8)):
        counter.add_energy(at, joules)
    assert counter.joules(0.0, 9.0) == pytest.approx(18.0)
    counter.add_energy(200.0, 1.0)
    assert counter.joules(0.0, 200.0) is None


def test_a_span_too_short_for_a_slow_sensor_stays_empty(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 3.0)
    world.with_jetson(update_ms=1000)
    recorder = world.recorder()
    world.run(recorder, 3)
    with recorder.span("transcript"):
        world.run(recorder, 0.3)
    world.run(recorder, 3)
    (cell,) = costs([Figure("per transcript", "transcript", "J")], recorder.spans, recorder.sources(), ())
    assert cell.samples == ()
    assert cell.reason == "the sensor has a value each 1 s, too seldom for spans of 0.3 s"


def test_the_idle_draw_is_subtracted_and_told(tmp_path: Path) -> None:
    world = World(tmp_path, lambda moment: 2.0 if moment < 1010 else 7.0)
    world.with_jetson()
    recorder = world.recorder()
    with recorder.span("idle"):
        world.run(recorder, 9.9)
    world.pass_time(0.2)
    recorder.step()
    with recorder.span("decode", count=50):
        world.run(recorder, 10)
    figures = (Figure("per token, net", "decode", "J", base="idle"), Figure("gross", "decode", "J"))
    net, gross = costs(figures, recorder.spans, recorder.sources(), ())
    assert net.subject == "ina3221 VDD_IN (the board's input)"
    assert net.samples == (pytest.approx(5.0 * 10 / 50, rel=0.01),)
    assert gross.samples == (pytest.approx(7.0 * 10 / 50, rel=0.01),)
    assert base_note(figures, recorder.spans, recorder.sources()) == [
        "ina3221 VDD_IN: 2.000 W while idle were subtracted where a figure says net."
    ]


def test_a_draw_that_cannot_be_subtracted_leaves_the_net_figure_empty(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 2.0)
    world.with_jetson()
    recorder = world.recorder()
    with recorder.span("decode"):
        world.run(recorder, 2)
    (cell,) = costs([Figure("net", "decode", "J", base="idle")], recorder.spans, recorder.sources(), ())
    assert cell.reason == "the draw while idle is not known, so it cannot be subtracted"


def test_without_a_sensor_every_cell_is_empty_and_says_why(tmp_path: Path) -> None:
    with Recorder(root=tmp_path, run=lambda _: None) as recorder:
        recorder.mark("idle", 0.0, 1.0)
    figures = (Figure("machine idle", "idle", "W"),)
    (cell,) = costs(figures, recorder.spans, recorder.sources(), recorder.reasons)
    assert (cell.samples, cell.reason) == ((), NO_SENSOR)
    (named,) = costs(figures, (), (), ("RAPL package-0 may be read by root only",))
    assert named.reason == "RAPL package-0 may be read by root only"


def test_the_thread_reads_while_the_suite_works_and_ends_with_it(tmp_path: Path) -> None:
    World(tmp_path, lambda _: 4.0).with_jetson(update_ms=20)
    with Recorder(root=tmp_path, run=lambda _: None) as recorder, recorder.span("work"):
        import time

        time.sleep(0.3)
    (source,) = recorder.sources()
    (span,) = recorder.spans
    joules = source.trace.joules(span.start, span.end)
    assert joules is not None
    assert joules / span.seconds == pytest.approx(4.0, rel=0.01)
    assert recorder._thread is None


# An external meter


def meter_csv(path: Path, start: float, seconds: int, draw: Callable[[float], float], rate: int = 10) -> Path:
    rows = [f"{start + n / rate:.3f},5.0,{draw(n / rate) / 5:.6f}" for n in range(seconds * rate)]
    path.write_text("Timestamp,U (V),I (A)\n" + "\n".join(rows) + "\n")
    return path


COLUMNS = parse_columns("time=Timestamp,volts=U (V),amps=I (A)")


@pytest.mark.parametrize("offset", [0.0, 2.5, -3600.0])
def test_a_meter_is_merged_by_time_with_its_clocks_offset(tmp_path: Path, offset: float) -> None:
    world = World(tmp_path, lambda _: 0.0)
    begin = world.now + world.wall_offset
    path = meter_csv(tmp_path / "m.csv", begin + offset, 30, lambda at: 2.0 if at < 10 else 5.0)
    recorder = world.recorder(MeterFile(path, COLUMNS, offset, "s"))
    with recorder.span("idle"):
        world.run(recorder, 9.5)
    world.run(recorder, 1)
    with recorder.span("work", count=4):
        world.run(recorder, 10)
    (cell,) = costs([Figure("net", "work", "J", base="idle")], recorder.spans, recorder.sources(), ())
    assert cell.subject == "meter m.csv (what the external meter is wired to)"
    assert cell.samples == (pytest.approx(3.0 * 10 / 4, rel=0.01),)


def test_a_meter_is_merged_by_the_clock_as_it_was_set_at_the_end(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 0.0)
    true_offset = world.wall_offset
    world.wall_offset = 1000.0  # a board without a clock begins in 1970
    path = meter_csv(tmp_path / "m.csv", world.now + true_offset, 30, lambda at: 2.0 if at < 10 else 5.0)
    recorder = world.recorder(MeterFile(path, COLUMNS, 0.0, "s"))
    world.run(recorder, 11)
    with recorder.span("work"):
        world.run(recorder, 5)
        world.wall_offset = true_offset
        world.run(recorder, 5)
    (cell,) = costs([Figure("work", "work", "W")], recorder.spans, recorder.sources(), ())
    assert cell.samples == (pytest.approx(5.0, rel=0.01),)


def test_a_meter_that_does_not_cover_the_run_gives_no_figure(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 0.0)
    path = meter_csv(tmp_path / "m.csv", world.now + world.wall_offset, 5, lambda _: 2.0)
    recorder = world.recorder(MeterFile(path, COLUMNS, 0.0, "s"))
    with recorder.span("work"):
        world.run(recorder, 20)
    (cell,) = costs([Figure("work", "work", "W")], recorder.spans, recorder.sources(), ())
    assert (cell.samples, cell.reason) == ((), "readings are missing during it")


@pytest.mark.parametrize(
    ("text", "columns", "form"),
    [
        ("t;P\n2026-01-01T00:00:00Z;1,5\n2026-01-01T00:00:02Z;1,5\n", "time=t,watts=P", "iso"),
        ("t\tmW\n1767225600000\t1500\n1767225602000\t1500\n", "time=t,mw=mW", "ms"),
        ("\ufefft,mV,mA\n1767225600,5000,300\n,,\n1767225602,5000,300\n", "time=t,mv=mV,ma=mA", "s"),
    ],
)
def test_forms_of_meters_files(tmp_path: Path, text: str, columns: str, form: str) -> None:
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")
    trace = MeterFile(tmp_path / "m.csv", parse_columns(columns), 0.0, form).trace(1767225600.0)
    assert trace.joules(0.0, 2.0) == pytest.approx(3.0)


def test_rows_of_the_same_second_are_one_reading_of_their_mean(tmp_path: Path) -> None:
    rows = [f"{second},{watts}" for second in range(10) for watts in (1, 2, 3, 6)]
    (tmp_path / "m.csv").write_text("time,watts\n" + "\n".join(rows) + "\n")
    trace = MeterFile(tmp_path / "m.csv", parse_columns("time=time,watts=watts"), 0.0, "s").trace(0.0)
    assert (trace.readings, trace.interval_s) == (10, 1.0)
    assert trace.joules(0.0, 9.0) == pytest.approx(27.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,watts\n1,2\n", "fewer than two readings"),
        ("time,watts\n5,2\n3,2\n", "goes back by 2 s"),
        ("time,watts\n5,two\n6,2\n", "line 2: could not convert"),
        ("when,watts\n5,2\n6,2\n", "has no column time; it has when, watts"),
    ],
)
def test_a_bad_meter_file_is_refused_with_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    meter = MeterFile(tmp_path / "m.csv", parse_columns("time=time,watts=watts"), 0.0, "s")
    with pytest.raises(InvalidArguments, match=message):
        meter.trace(0.0)
    with pytest.raises(NotFound):
        replace(meter, path=tmp_path / "none.csv").trace(0.0)


@pytest.mark.parametrize("text", ["time=t", "watts=w", "time=t,volts=v", "nonsense", "time=t,joules=j"])
def test_columns_must_name_time_and_power(text: str) -> None:
    with pytest.raises(InvalidArguments):
        parse_columns(text)


def test_a_result_with_spans_gets_its_energy_from_a_meter_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, lambda _: 0.0)
    begin = world.now + world.wall_offset
    recorder = world.recorder()
    world.run(recorder, 1)
    with recorder.span("decode", count=10):
        world.run(recorder, 10)
    figures = (Figure("per token", "decode", "J"),)
    report = with_energy(Report("llm", fingerprint(), {"n": 1}, {}, ()), recorder, figures)
    assert report.measurements[0].reason == NO_SENSOR
    report.write_json(tmp_path / "run.json")
    meter_csv(tmp_path / "m.csv", begin - 5, 30, lambda _: 3.0)
    arguments = ["energy", str(tmp_path / "run.json"), "--meter", str(tmp_path / "m.csv")]
    options = ["--meter-columns", "time=Timestamp,volts=U (V),amps=I (A)", "--meter-time", "s"]
    assert main([*arguments, *options, "--json", str(tmp_path / "out.json")]) == 0
    (measurement,) = json.loads((tmp_path / "out.json").read_text())["measurements"]
    assert measurement["samples"] == [pytest.approx(3.0, rel=0.01)]
    assert "meter m.csv" in capsys.readouterr().out
    assert main(["energy", str(tmp_path / "out.json"), "--meter", str(tmp_path / "m.csv")]) == 1
    assert "run the suite with --power" in capsys.readouterr().err


def test_spans_hold_what_was_counted() -> None:
    source = Source("s", "c", Trace(0.1))
    for n in range(21):
        source.trace.add_power(n / 10, 2.0)
    (cell,) = costs([Figure("x", "a", "J")], [Span("a", 0.0, 1.0, 2), Span("a", 1.0, 2.0, 4)], [source], ())
    assert cell.samples == (pytest.approx(1.0), pytest.approx(0.5))
