"""Words for time: as people say them, in both languages, for every value."""

from __future__ import annotations

from datetime import date, time

import pytest
from famulus.capabilities.texts import TEXTS, clock_words, date_words, duration, joined, zh_number
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("seconds", "en", "zh"),
    [
        (0, "0 seconds", "0秒"),
        (1, "1 second", "1秒"),
        (60, "1 minute", "1分钟"),
        (90, "1 minute and 30 seconds", "1分钟30秒"),
        (3600, "1 hour", "1小时"),
        (2 * 3600 + 5 * 60 + 1, "2 hours, 5 minutes and 1 second", "2小时5分钟1秒"),
    ],
)
def test_a_length_of_time(seconds: int, en: str, zh: str) -> None:
    assert (duration(seconds, "en"), duration(seconds, "zh")) == (en, zh)


@pytest.mark.parametrize(
    ("at", "en", "zh"),
    [
        (time(0, 0), "midnight", "午夜十二点"),
        (time(0, 5), "12:05 AM", "凌晨零点零五分"),
        (time(8, 30), "8:30 AM", "上午八点半"),
        (time(12, 0), "noon", "中午十二点"),
        (time(12, 20), "12:20 PM", "中午十二点二十分"),
        (time(14, 0), "2:00 PM", "下午两点整"),
        (time(23, 59), "11:59 PM", "晚上十一点五十九分"),
    ],
)
def test_a_time_of_day(at: time, en: str, zh: str) -> None:
    assert (clock_words(at, "en"), clock_words(at, "zh")) == (en, zh)


def test_a_date() -> None:
    day = date(2026, 11, 30)
    assert date_words(day, "en") == "Monday, 30 November 2026"
    assert date_words(day, "zh") == "2026年11月30日，星期一"


def test_a_list() -> None:
    assert [joined(list("abc")[:n], "en") for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert joined(list("abc"), "zh") == "a、b和c"


@pytest.mark.parametrize(("number", "words"), [(0, "零"), (10, "十"), (11, "十一"), (20, "二十"), (59, "五十九")])
def test_a_chinese_number(number: int, words: str) -> None:
    assert zh_number(number) == words


@given(st.times(), st.dates(), st.sampled_from(["en", "zh", "fr"]))
def test_every_time_and_date_has_words(at: time, day: date, language: str) -> None:
    assert clock_words(at, language)
    assert str(day.year) in date_words(day, language)


def test_every_message_has_both_languages() -> None:
    assert [key for key in TEXTS.messages if not {"en", "zh"} <= set(TEXTS._messages[key])] == []
