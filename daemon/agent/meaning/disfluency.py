"""What people say beside what they mean: fillers, words said twice, and corrections of themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....capabilities.command import Language

_FILLERS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:(?:so|well|okay|ok|hey|oh|right)\b[ ,]*)+(?:like\b[ ,]*)?"
        r"|\b(?:u+h+m*|u+m+|e+r+m*|a+h+|h+m+|mm+|you know)\b[ ,.]*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"[嗯呃唔]+[ ，,]*|(?:^|(?<=[ ，,]))(?:额|啊|哦|诶|那个|这个|就是)+[ ，,]+|(?:那个[ ，,]*){2,}|那个[ ，,]+"
    ),
}
_TWICE_ALWAYS = re.compile(  # words that carry no title or name
    r"\b((?:can|could|would|will) you|(?:i|we) (?:want|need)|the|a|an|to|in|on|off|of|my|me|it|is|and|for|at|please|can"
    r"|could|set|turn|switch|play|put|make|what|whats|like)(?:[ ,]+\1\b)+",
    re.IGNORECASE,
)
_TWICE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(r"\b(\w+(?: \w+){0,2})(?:[ ,]+\1\b)+", re.IGNORECASE),
    "zh": re.compile(r"(\w{1,6})(?:[ ，,]+\1)+"),
}
_MISHEARD = re.compile(r"\b(turn|turned|switch|switched|shut) of\b(?! course)", re.IGNORECASE)
_CORRECTIONS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"[ ,.]*\b(?:oh )?(?:no+[ ,]+(?:wait|sorry|not that|i mean|make (?:it|that)|actually)|wait[ ,]+no|sorry[ ,]+no"
        r"|sorry[ ,]+i mean|i mean|scratch that|actually[ ,]+no|or rather|correction|i meant|make that"
        r"|(?<=[ ,])sorry(?= \w))\b[ ,.]*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"[ ，,。]*(?:[哦啊噢]不对?|不对(?:不对)?|不不+|我?说错了?|错了|我是说|应该是"
        r"|(?<=[ ，,])不是(?=[ ，,]))[ ，,。]*"
    ),
}


@dataclass(frozen=True)
class Fluent:
    """A sentence without fillers. ``corrected_from`` is where the correction begins in ``text``, 0 without one.

    What was said before it stays in the text, since only the wrong word is taken back, not the wish.
    """

    text: str
    corrected_from: int = 0


def make_fluent(text: str, language: Language) -> Fluent:
    """Take out what carries no meaning. Words said twice are kept where they may be a title ("Duran Duran")."""
    without = _FILLERS[language].sub(" ", text)
    without = re.sub(r"\s+", " ", without).strip(" ,，")
    if language == "en":
        without = _MISHEARD.sub(r"\1 off", _TWICE_ALWAYS.sub(r"\1", without))
    if language == "zh" or len(without) < len(text.strip(" ,，")):
        without = _TWICE[language].sub(r"\1", without)
    if not without:
        return Fluent(text)
    *before, after = _CORRECTIONS[language].split(without)
    head = " ".join(part for part in before if part)
    if not head or not after:
        return Fluent(head or after or without)
    return Fluent(f"{head} {after}", len(head) + 1)
