"""The clock: what time it is, and what day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...core.errors import NotFound
from ..command import Capability, Command, Example, Outcome, Sentence
from ..provider import CallContext
from ..texts import TEXTS, clock_words, date_words

_TIME_EN = (
    "(what|what's|whats) [is] [the] time [is it] [right] [now]",
    "what time is it [right] [now]",
    "what time [have] (do|have) (you|we) (have|got) [right] [now]",
    "(tell|give) me [the] [current] time",
    "tell me what time it is",
    "do you (know|have) [what] [the] time [it is]",
    "(got|have you got) the time",
    "[say|check|show|read] [me] the [current] time",
    "how late is it",
    "what does the clock say",
    "what hour is it",
)
_TIME_ZH = (
    "[现在][是](几点|几时|什么时间)[钟][了|啦|呀|呢]",
    "现在[的]时间[是][多少|几点]",
    "(告诉|报)[一下][我][现在][的]时间",
    "告诉我[现在][是]几点[钟][了|啦]",
    "报[一下]时",
    "[看|查][一下|看]时间",
    "[你](知道|看看|看一下|说一下)[现在]几点[钟][了|啦]",
    "[请问][现在]几点[钟][了|啦|呀|呢]",
    "当前时间",
)
_DATE_EN = (
    "(what|what's|whats) [is] [the] (date|day) [is it] [today]",
    "(what|what's|whats) [is] today's date",
    "what (day|date) is (it|today) [today]",
    "what day of the (week|month) is (it|today) [today]",
    "(tell|give) me [the|today's] date [today]",
    "tell me what (day|date) (it|today) is [today]",
    "which (day|date|weekday) is (it|today) [today]",
    "[say|check|show|read] [me] (the|today's) [current] date",
    "do you know (what day it is|the date|what the date is|today's date)",
)
_DATE_ZH = (
    "今天[是](几号|几月几号|几日|几月几日)[了|啊|呢]",
    "今天[是](星期几|周几|礼拜几)[了|啊|呢]",
    "今天[的]日期[是][什么|多少|几号]",
    "今天[是](什么日子|哪天|哪一天|多少号)",
    "(告诉|报)[一下][我]今天[的](日期|几号|是几号|星期几|是星期几)",
    "[现在]是[几月]几号",
    "[看|查][一下|看][今天的]日期",
    "[你]知道今天[是](几号|星期几|周几)[吗]",
    "当前日期",
)


def capability() -> Capability:
    """What the clock offers."""
    return Capability(
        name="clock",
        description="Time and date",
        commands=(
            Command(
                name="clock.time",
                description="Say what time it is now",
                sentences={"en": _sentences(_TIME_EN), "zh": _sentences(_TIME_ZH)},
                examples=(
                    Example(text="Could you check the clock for me?"),
                    Example(text="几点钟了呀", language="zh"),
                ),
            ),
            Command(
                name="clock.date",
                description="Say today's date and the day of the week",
                sentences={"en": _sentences(_DATE_EN), "zh": _sentences(_DATE_ZH)},
                examples=(Example(text="Is it Friday already?"), Example(text="今儿礼拜几来着", language="zh")),
            ),
        ),
    )


def _sentences(templates: tuple[str, ...]) -> tuple[Sentence, ...]:
    return tuple(Sentence(text=template) for template in templates)


def _local_now() -> datetime:
    return datetime.now().astimezone()


class ClockProvider:
    """Answers from ``now``, which returns an aware datetime (default: this machine's local time)."""

    def __init__(self, now: Callable[[], datetime] = _local_now) -> None:
        self._now = now

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        """``data`` is ``{"iso": …}`` with the offset from UTC."""
        now = self._now()
        if command == "clock.time":
            say = TEXTS.get("time_is", context.language, time=clock_words(now.time(), context.language))
        elif command == "clock.date":
            say = TEXTS.get("date_is", context.language, date=date_words(now.date(), context.language))
        else:
            raise NotFound(f"The clock has no command {command}.")
        return Outcome(data={"iso": now.isoformat(timespec="seconds")}, say=say)

    async def cancel(self, call_id: str) -> None:
        """Nothing here takes long enough to be stopped."""
