"""English numbers in digits and words, with their units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .quantity import Quantity, Unit

_SMALL_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
"""
_SMALL = {word: value for value, word in enumerate(_SMALL_WORDS.split())}
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * ten for ten, word in enumerate(_TENS_WORDS.split(" "), start=2)} | {"fourty": 40}
_PARTS = {"half": 2, "halve": 2, "third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
_SHARES = {f"{word}{plural}": 1 / parts for word, parts in _PARTS.items() for plural in ("", "s")}
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("%", "percent", "percentage"), "percent"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "second"),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), "minute"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("day", "days"), "day"),
    **dict.fromkeys(("degree", "degrees", "°", "celsius", "centigrade"), "degree"),
    "fahrenheit": "fahrenheit",
    **dict.fromkeys(
        ("o'clock", "am", "pm", "times", "pounds", "euros", "dollars", "weeks", "months", "years"), "other"
    ),
    **dict.fromkeys(("miles", "kilometres", "meters", "metres", "people", "songs", "degrees fahrenheit"), "other"),
}
_NOT_A_NUMBER_AFTER = {"this", "that", "the", "next", "another", "which", "no", "every", "any", "last", "new", "other"}
_LONGEST = 12  # characters of digits
_CLOCK = re.compile(
    r"\b(?:half|quarter|\w+) past \w+|\b(?:quarter|five|ten|twenty) to (?:\d+|one|two|three|four|five|six|seven|eight"
    r"|nine|ten|eleven|twelve)\b(?! percent| degrees| minutes)|\b\d{1,2}:\d\d\b|\b\d{1,2} ?[ap]\.?m\b"
)
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[a-z]+(?:'[a-z]+)?|[%°]")


class _Reader:
    def __init__(self, text: str) -> None:
        low = text.casefold()
        for clock in _CLOCK.finditer(low):  # a time of day is no amount
            low = low[: clock.start()] + "·" * len(clock[0]) + low[clock.end() :]
        found = list(_TOKEN.finditer(low))
        self.words = [match[0] for match in found]
        self.spans = [match.span() for match in found]

    def word(self, at: int) -> str:
        return self.words[at] if 0 <= at < len(self.words) else ""

    def whole(self, at: int) -> tuple[float, int] | None:
        """A number that begins at a word, and the word after it."""
        word = self.word(at)
        if word[:1].isdigit():
            return (float(word), at + 1) if len(word) <= _LONGEST else None
        if word in ("a", "an") and self.word(at + 1) == "hundred":
            value, at = 100.0, at + 2
        elif word == "a" and self.word(at + 1) == "couple":
            return 2.0, at + (3 if self.word(at + 2) == "of" else 2)
        elif word == "hundred":
            value, at = 100.0, at + 1
        elif word in _TENS:
            value, at = float(_TENS[word]), at + 1
            if 0 < _SMALL.get(self.word(at), 0) < 10:
                value, at = value + _SMALL[self.word(at)], at + 1
        elif word in _SMALL:
            if word == "one" and self.word(at - 1) in _NOT_A_NUMBER_AFTER:
                return None
            value, at = float(_SMALL[word]), at + 1
        else:
            return None
        if self.word(at) == "hundred" and value < 10:
            value, at = value * 100, at + 1
        if value >= 100 and value % 100 == 0:
            after = at + (self.word(at) == "and")
            rest = self.whole(after) if self.word(after) not in ("a", "an", "hundred") else None
            if rest and rest[0] < 100:
                value, at = value + rest[0], rest[1]
        return value, at

    def share(self, at: int) -> tuple[float, int] | None:
        """ "half", "a quarter", "two thirds"."""
        count, after = 1.0, at
        if self.word(at) in ("a", "an", "one"):
            after = at + 1
        elif (many := self.whole(at)) and self.word(many[1]).endswith("s"):
            count, after = many
        part = _SHARES.get(self.word(after))
        if part is None or count * part > 1:
            return None
        return count * part, after + 1

    def unit(self, at: int) -> tuple[Unit, int]:
        unit = _UNITS.get(self.word(at), "")
        if unit == "degree" and self.word(at + 1) in _UNITS:
            unit, at = _UNITS[self.word(at + 1)], at + 1
        return (unit, at + 1) if unit else ("", at)

    def quantity(self, at: int) -> tuple[float, Unit, int] | None:
        if share := self.share(at):
            value, after = share
            skipped = after
            while self.word(skipped) in ("of", "a", "an"):
                skipped += 1
            unit, end = self.unit(skipped)
            return (value, unit, end) if unit in ("second", "minute", "hour", "day") else (value, "share", after)
        if self.word(at) in ("a", "an") and (unit := _UNITS.get(self.word(at + 1), "")) not in ("", "other", "percent"):
            value, after = 1.0, at + 2
        elif number := self.whole(at):
            value, after = number
            if self.words[after : after + 3] == ["and", "a", "half"]:  # two and a half hours
                value, after = value + 0.5, after + 3
            unit, after = self.unit(after)
        else:
            return None
        if self.words[after : after + 3] == ["and", "a", "half"]:
            value, after = value + 0.5, after + 3
        elif self.words[after : after + 3] == ["and", "a", "quarter"]:
            value, after = value + 0.25, after + 3
        return value, unit, after


def find(text: str) -> Iterator[Quantity]:
    """Numbers in spoken order. A recogniser's "two sixteen" and "four ten" are "to sixteen" and "for ten"."""
    reader = _Reader(text)
    at = 0
    while at < len(reader.words):
        if found := reader.quantity(at):
            value, unit, after = found
            misheard = reader.word(at) in ("two", "four") and after == at + 1 and reader.whole(after) is not None
            if not misheard:
                yield Quantity(value, unit, reader.spans[at][0], reader.spans[after - 1][1])
            at = after
        else:
            at += 1
