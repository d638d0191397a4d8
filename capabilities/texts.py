"""What a person hears from commands: the catalogue, and lengths of time and lists in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time
from pathlib import Path

from ..core.texts import Texts

TEXTS = Texts(Path(__file__).with_name("texts.toml"))

_ZH_DIGITS = "零一二三四五六七八九"
_NOON = 12


def duration(seconds: int, language: str) -> str:
    """A length of time as people say it: "1 hour and 5 minutes", 1小时5分钟."""
    minutes, rest = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    counts = {"hour": hours, "minute": minutes, "second": rest}
    parts = [_counted(unit, count, language) for unit, count in counts.items() if count]
    if not parts:
        return _counted("second", 0, language)
    return "".join(parts) if language == "zh" else joined(parts, language)


def _counted(unit: str, count: int, language: str) -> str:
    return TEXTS.get(unit if count == 1 else f"{unit}s", language, count=count)


def joined(parts: Sequence[str], language: str) -> str:
    """A list as people say it: "a, b and c", a、b和c."""
    if len(parts) < 2:
        return "".join(parts)
    comma, last = TEXTS.get("comma", language), TEXTS.get("and", language)
    return comma.join(parts[:-1]) + last + parts[-1]


def clock_words(at: time, language: str) -> str:
    """A time of day as people say it: "7:05 PM", 晚上七点零五分."""
    if at.minute == 0 and at.hour in (0, _NOON):
        return TEXTS.get("noon" if at.hour else "midnight", language)
    if language != "zh":
        return f"{at.hour % _NOON or _NOON}:{at.minute:02} {'AM' if at.hour < _NOON else 'PM'}"
    hour = at.hour if at.hour <= _NOON else at.hour - _NOON
    part = TEXTS.get(_zh_part_of_day(at.hour), language)
    return f"{part}{'两' if hour == 2 else zh_number(hour)}点{_zh_minutes(at.minute)}"


def _zh_part_of_day(hour: int) -> str:
    parts = ((6, "small_hours"), (12, "morning"), (13, "midday"), (18, "afternoon"), (24, "evening"))
    return next(name for end, name in parts if hour < end)


def _zh_minutes(minute: int) -> str:
    if minute == 0:
        return "整"
    if minute == 30:
        return "半"
    return f"{'零' if minute < 10 else ''}{zh_number(minute)}分"


def zh_number(number: int) -> str:
    """A number from 0 to 99 in Chinese: 25 is 二十五."""
    tens, ones = divmod(number, 10)
    if not tens:
        return _ZH_DIGITS[ones]
    return f"{_ZH_DIGITS[tens] if tens > 1 else ''}十{_ZH_DIGITS[ones] if ones else ''}"


def date_words(day: date, language: str) -> str:
    """A date as people say it: "Monday, 30 November 2026", 2026年11月30日，星期一."""
    weekday = TEXTS.get(f"weekday_{day.isoweekday()}", language)
    month = TEXTS.get(f"month_{day.month}", language)
    return TEXTS.get("date", language, weekday=weekday, month=month, day=day.day, year=day.year)
