"""Chinese numbers in digits and characters, with their units."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .quantity import Quantity, Unit

_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "幺": 1}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_NUMBER = r"(?:\d+(?:\.\d+)?|[零〇一二三四五六七八九十百千两]+(?:点[零〇一二三四五六七八九]+)?)"
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("分钟", "分"), "minute"),
    **dict.fromkeys(("小时", "钟头"), "hour"),
    **dict.fromkeys(("秒钟", "秒"), "second"),
    "天": "day",
    **dict.fromkeys(("摄氏度", "度", "℃", "°c", "°"), "degree"),
    "华氏度": "fahrenheit",
    **dict.fromkeys(("%", "％"), "percent"),
    **dict.fromkeys(("点钟", "点", "号", "块", "元", "公里", "岁", "年", "月", "台"), "other"),
}
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_LONGEST = 24  # characters; no amount that anyone means is longer
_TIME = "分钟|小时|钟头|秒钟|秒|天"
_QUANTITY = re.compile(
    rf"百分之(?P<percent>{_NUMBER})"
    rf"|(?P<below>{_NUMBER})分之(?P<above>{_NUMBER})"
    rf"|(?P<tenths>{_NUMBER})成(?P<twentieth>半)?(?![为了])"
    rf"|(?P<quarters>{_NUMBER})刻钟?"
    rf"|(?P<halftime>半)个?(?P<halfunit>{_TIME})"
    rf"|(?P<and_half>{_NUMBER})个半(?P<andunit>{_TIME})"
    rf"|(?<!第)(?P<number>{_NUMBER})个?(?P<unit>{_UNIT})(?P<more>半)?"
    r"|(?P<half>一半|减半|对半|半(?![夜天路]))"
    rf"|(?<!第)(?P<plain>{_NUMBER})",
    re.IGNORECASE,
)
_MEASURES = re.compile(r"[点下首张个些会起定样直切边曲支遍次声段种条杯位把道片盏束丝眼只块]")


def find(text: str) -> Iterator[Quantity]:
    """Numbers in spoken order; the 一 of 一下, 一首 or 一点 is none."""
    for match in _QUANTITY.finditer(text):
        if match.end() - match.start() > _LONGEST:
            continue
        said = match.groupdict()
        if said["plain"] in ("一", "两", "十", "千", "百") and _MEASURES.match(text, match.end()):
            continue
        if said["number"] == "一" and said["unit"] == "点":
            continue
        value, unit = _amount(said)
        yield Quantity(value, unit, match.start(), match.end())


def _amount(said: Mapping[str, str]) -> tuple[float, Unit]:
    if said["percent"]:
        return _value(said["percent"]), "percent"
    if said["below"]:
        return _value(said["above"]) / (_value(said["below"]) or 1), "share"
    if said["tenths"]:
        return _value(said["tenths"]) / 10 + (0.05 if said["twentieth"] else 0), "share"
    if said["quarters"]:
        return _value(said["quarters"]) * 15, "minute"
    if said["halftime"]:
        return 0.5, _UNITS[said["halfunit"]]
    if said["and_half"]:
        return _value(said["and_half"]) + 0.5, _UNITS[said["andunit"]]
    if said["number"]:
        return _value(said["number"]) + (0.5 if said["more"] else 0), _UNITS[said["unit"].casefold()]
    if said["half"]:
        return 0.5, "share"
    return _value(said["plain"]), ""


def _value(said: str) -> float:
    if said[0].isdigit():
        return float(said)
    whole, _, decimals = said.partition("点")
    if decimals:
        return _whole(whole) + float("0." + "".join(str(_DIGITS[char]) for char in decimals))
    return float(_whole(whole))


def _whole(said: str) -> int:
    """三百二十 and 三二零 alike; 一百八 is 180."""
    if not any(char in _PLACES for char in said):
        return int("".join(str(_DIGITS[char]) for char in said) or 0)
    total = digit = 0
    place = 1
    for char in said:
        if char in _PLACES:
            place = _PLACES[char]
            total += (digit or 1) * place
            digit = 0
        else:
            digit = _DIGITS[char]
            if char in "零〇":
                place = 10
    return total + digit * (place // 10 if place >= 100 and digit else 1)
