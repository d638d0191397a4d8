"""An external meter's CSV file, merged with a run by time: for boards that have no sensor of their own."""

from __future__ import annotations

import csv
import datetime
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from ...core.errors import InvalidArguments, NotFound
from .trace import Trace

_ROLES = ("time", "watts", "volts", "amps", "mw", "mv", "ma")
_FORMS = ("iso", "s", "ms")


@dataclass(frozen=True)
class MeterFile:
    """``columns`` maps ``time`` and either ``watts`` or ``volts`` and ``amps`` (or mw, mv, ma) to names in the file.

    ``offset_s`` is how far the meter's clock is ahead of this machine's; ``form`` is how times are written: ``iso``
    (with or without a zone; without one it is local), ``s`` or ``ms`` since 1970.
    """

    path: Path
    columns: dict[str, str]
    offset_s: float = 0.0
    form: str = "iso"

    @property
    def name(self) -> str:
        return f"meter {self.path.name}"

    covers: str = "what the external meter is wired to"

    def trace(self, wall_minus_monotonic: float) -> Trace:
        """Its readings on this machine's monotonic clock. Raises ``NotFound`` or ``InvalidArguments``."""
        rows = self._rows()
        trace = Trace(statistics.median(later - earlier for (earlier, _), (later, _) in pairwise(rows)))
        for at, watts in rows:
            trace.add_power(at - self.offset_s - wall_minus_monotonic, watts)
        return trace

    def _rows(self) -> list[tuple[float, float]]:
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                sample = file.read(4096)
                file.seek(0)
                reader = csv.DictReader(file, delimiter=_delimiter(sample))
                names = [name.strip() for name in reader.fieldnames or ()]
                reader.fieldnames = names
                if lacking := [name for name in self.columns.values() if name not in names]:
                    raise InvalidArguments(
                        f"{self.path} has no column {', '.join(lacking)}; it has {', '.join(names)}."
                    )
                rows = [self._row(row, reader.line_num) for row in reader]
        except FileNotFoundError:
            raise NotFound(f"{self.path} is missing; name the file that the meter wrote.") from None
        except (OSError, csv.Error, UnicodeDecodeError) as error:
            raise InvalidArguments(f"{self.path} cannot be read as CSV: {error}") from error
        readings = [row for row in rows if row is not None]
        # Some meters write whole seconds and several rows in each: one reading then, of their mean.
        found = [
            (at, statistics.fmean(watts for _, watts in group)) for at, group in groupby(readings, lambda row: row[0])
        ]
        if len(found) < 2:
            raise InvalidArguments(f"{self.path} holds fewer than two readings; let the meter run during the suite.")
        for (earlier, _), (later, _) in pairwise(found):
            if later < earlier:
                raise InvalidArguments(
                    f"The time in {self.path} goes back by {earlier - later:g} s: the meter's clock was set during the "
                    "run; measure again."
                )
        return found

    def _row(self, row: dict[str, str], line: int) -> tuple[float, float] | None:
        """Time and watts; None for a row in which the meter wrote nothing."""
        cells = {role: (row.get(name) or "").strip() for role, name in self.columns.items()}
        if not all(cells.values()):
            return None
        try:
            values = {role: float(_decimal(cell)) for role, cell in cells.items() if role != "time"}
            at = _time(cells["time"], self.form)
        except ValueError as error:
            raise InvalidArguments(f"{self.path}, line {line}: {error}.") from None
        return at, _watts(values)


def parse_columns(text: str) -> dict[str, str]:
    """``time=Timestamp,volts=U(V),amps=I(A)`` as a mapping. Raises ``InvalidArguments``."""
    columns = {}
    for part in text.split(","):
        role, separator, name = part.partition("=")
        if not separator or role.strip() not in _ROLES:
            raise InvalidArguments(f"{part!r} is not of the form ROLE=COLUMN with ROLE one of {', '.join(_ROLES)}.")
        columns[role.strip()] = name.strip()
    power = {"watts", "mw"} & columns.keys()
    pair = {"volts", "mv"} & columns.keys() and {"amps", "ma"} & columns.keys()
    if "time" not in columns or not (power or pair):
        raise InvalidArguments("The meter's columns must name time, and watts or both volts and amps.")
    return columns


def check_form(form: str) -> str:
    """``form`` itself. Raises ``InvalidArguments`` for one that is not known."""
    if form not in _FORMS:
        raise InvalidArguments(f"The meter's time form is one of {', '.join(_FORMS)}, not {form!r}.")
    return form


def _watts(values: dict[str, float]) -> float:
    if "watts" in values:
        return values["watts"]
    if "mw" in values:
        return values["mw"] / 1000
    volts = values["volts"] if "volts" in values else values["mv"] / 1000
    amps = values["amps"] if "amps" in values else values["ma"] / 1000
    return volts * amps


def _time(text: str, form: str) -> float:
    if form == "iso":
        return datetime.datetime.fromisoformat(text.replace("/", "-")).timestamp()
    return float(_decimal(text)) / (1000 if form == "ms" else 1)


def _decimal(text: str) -> str:
    """Meters made for Europe write 5,12."""
    return text.replace(",", ".") if text.count(",") == 1 and "." not in text else text


def _delimiter(sample: str) -> str:
    head = sample.partition("\n")[0]
    counts: Sequence[tuple[int, str]] = [(head.count(mark), mark) for mark in (";", "\t", ",")]
    return max(counts)[1]
