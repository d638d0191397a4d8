"""What people say to the timer: lengths of time in all their forms, put into a few frames per language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..command import Language, Sentence

_Length = tuple[str, dict[str, Any]]

# Lengths as they stand behind "for", then as they stand before "timer": "a 5-minute timer".
_LENGTHS_EN: tuple[_Length, ...] = (
    ("({minutes} minute[s] [[and] {seconds} second[s]]|{seconds} second[s])", {}),
    ("{hours} hour[s] [[and] {minutes} minute[s]]", {}),
    ("(a|an|one) hour [and] {minutes} minute[s]", {"hours": 1}),
    ("{hours} and a half hours", {"minutes": 30}),
    ("{hours} hours and a half", {"minutes": 30}),
    ("{minutes} and a half minutes", {"seconds": 30}),
    ("an hour", {"hours": 1}),
    ("an hour and a half", {"hours": 1, "minutes": 30}),
    ("([a] half [of] an hour|[a] half hour)", {"minutes": 30}),
    ("([a] quarter [of] an hour|[a] quarter hour)", {"minutes": 15}),
    ("three quarters of an hour", {"minutes": 45}),
    ("a minute", {"minutes": 1}),
    ("a minute and a half", {"minutes": 1, "seconds": 30}),
    ("([a] half [of] a minute|[a] half minute)", {"seconds": 30}),
    ("a couple of minutes", {"minutes": 2}),
)
_SHORT_EN: tuple[_Length, ...] = (
    ("({minutes}(-| )minute|{seconds}(-| )second|{hours}(-| )hour)", {}),
    ("(half(-| )hour|half(-| )an(-| )hour)", {"minutes": 30}),
    ("quarter(-| )hour", {"minutes": 15}),
    ("hour[-| ]long", {"hours": 1}),
    ("half(-| )minute", {"seconds": 30}),
)
_START_EN = "(set|start|create|make|begin|run|add|put on|give me|i need|i want)"
_FRAMES_EN = (
    f"[{_START_EN}] [a|an|the|my|another|new|a new] (timer|countdown|alarm) (for|of|to|in|with) <length>",
    f"[{_START_EN}] [a|the|another] (timer|countdown) <length>",
    "(time|count down|countdown) [for] <length>",
    "(remind|wake|alert|ping) me (in|after) <length>",
    "(give me a shout|let me know) (in|after) <length>",
)
_SHORT_FRAMES_EN = (f"[{_START_EN}] [a|an|the|my|another|new|a new] <length> (timer|countdown|alarm)",)
_NAMED_EN: tuple[_Length, ...] = (
    ("({minutes} minute[s]|{seconds} second[s]|{hours} hour[s] [[and] {minutes} minute[s]])", {}),
    ("half an hour", {"minutes": 30}),
    ("an hour", {"hours": 1}),
)
_NAMED_FRAMES_EN = (
    "(set|start|create|make) [a|an|the|my] {label} timer (for|of) <length>",
    "(set|start|create|make) [a|the|my] timer (for|of) <length> (called|named|for [the|my]) {label}",
    "(set|start|create|make) [a|the|my] timer (called|named|for [the|my]) {label} (for|of) <length>",
)

_LENGTHS_ZH: tuple[_Length, ...] = (
    ("({minutes}分钟[{seconds}秒[钟]]|{minutes}分{seconds}秒|{seconds}秒[钟])", {}),
    ("{hours}[个](小时|钟头)[[零]{minutes}(分钟|分)]", {}),
    ("{hours}个半(小时|钟头)", {"minutes": 30}),
    ("{minutes}分半[钟]", {"seconds": 30}),
    ("半[个](小时|钟头)", {"minutes": 30}),
    ("一刻钟", {"minutes": 15}),
    ("三刻钟", {"minutes": 45}),
    ("半分钟", {"seconds": 30}),
)
_TIMER_ZH = "(闹钟|定时器|计时器|倒计时|闹铃|定时|计时)"
_FRAMES_ZH = (
    f"[再](定|设|设定|设置|开|来|弄|建|启动)[一]个<length>[的]{_TIMER_ZH}",
    f"(定|设|设定|设置)[一下]<length>[的]{_TIMER_ZH}",
    f"<length>[的]{_TIMER_ZH}",
    f"{_TIMER_ZH}[设|定][为|成|到]<length>",
    "(倒数|倒计时)<length>",
    "[过]<length>[之|以]后(叫|提醒|通知|喊|告诉)我[一下|一声]",
    "[过]<length>(叫|提醒|通知|喊)我[一下|一声]",
)
_NAMED_FRAMES_ZH = (
    f"(定|设|设定|设置)[一]个<length>[的]{{label}}{_TIMER_ZH}",
    f"(定|设|设定|设置)[一]个叫{{label}}的<length>[的]{_TIMER_ZH}",
)
_NAMED_ZH: tuple[_Length, ...] = (
    ("({minutes}分钟|{seconds}秒[钟]|{hours}[个]小时)", {}),
    ("半[个]小时", {"minutes": 30}),
)

_ANY_EN = "(timer|timers|countdown|alarm|alarms)"
_LIST_EN = (
    f"(list|show|read|check|tell me|tell me about) [me] [all] [of] [the|my] [running|active] {_ANY_EN}",
    f"(what|which) {_ANY_EN} (are|is|do i have|have i|have i got) [running|active|set|on|there]",
    f"(are|is) (there|any) [any|a] {_ANY_EN} [running|active|set|on]",
    f"(do i have|have i got) [any|a] {_ANY_EN} [running|active|set|on]",
    f"how (much|many) (time|minutes|seconds) (is|are) [there] left [on [the|my] {_ANY_EN}]",
    f"how (much|many) (time|minutes|seconds) [do i] have left [on [the|my] {_ANY_EN}]",
    f"how (long|much longer) [is] [left] (on|for|does) [the|my] {_ANY_EN} [have] [left|have left|take|run]",
    f"(how is|how's|what about|what's|what is) [left on|on|with] [the|my] {_ANY_EN} [doing]",
    f"[the|my] {_ANY_EN} (status|list)",
    "when (is|does|will) [the|my] (timer|countdown|alarm) (over|up|end|done|go off|finish|ring)",
)
_LIST_ZH = (
    f"[我][现在]有(哪些|什么|几个|多少个|多少){_TIMER_ZH}",
    f"[我][现在][还]有没有{_TIMER_ZH}",
    f"[查看|看看|看一下|列出|列一下|告诉我][我][的][所有|全部][的]{_TIMER_ZH}列表",
    f"(查看|看看|看一下|列出|列一下|查一下|显示)[我][的][所有|全部][的]{_TIMER_ZH}",
    f"{_TIMER_ZH}还(剩|有)(多久|多少时间|多长时间|几分钟|多少)",
    f"{_TIMER_ZH}(剩|剩下)(多久|多少时间|多长时间|几分钟)",
    "还剩(多久|多少时间|多长时间|几分钟)[到时间|结束]",
    f"{_TIMER_ZH}(什么时候|几时)(到|响|结束|到时间|停)",
    f"{_TIMER_ZH}[现在](怎么样|怎样|情况|状态)[了]",
)
_CANCEL_WORD_EN = "(cancel|stop|end|delete|remove|clear|turn off|switch off|kill|abort)"
_CANCEL_EN: tuple[_Length, ...] = (
    (f"{_CANCEL_WORD_EN} [the|my|that|this] [running|current] (timer|countdown|alarm)", {}),
    ("(turn|switch) [the|my] (timer|countdown|alarm) off", {}),
    ("(forget|never mind|drop|call off|get rid of) [about] [the|my|that] (timer|countdown|alarm)", {}),
    ("(i don't|i do not|we don't) need [the|my|that] (timer|countdown|alarm) [any more|anymore]", {}),
    (
        f"{_CANCEL_WORD_EN} (all|all the|all my|all of the|all of my|every|the|my) (timers|countdowns|alarms)",
        {"all": True},
    ),
    (f"{_CANCEL_WORD_EN} every (timer|countdown|alarm)", {"all": True}),
    # Not "turn off" and not "alarm": a burglar alarm is no timer.
    ("(cancel|stop|end|delete|remove|clear) [the|my] {label} (timer|countdown)", {}),
    ("(cancel|stop|end|delete|remove|clear) [the|my] (timer|countdown) (called|named|for) [the|my] {label}", {}),
)
_CANCEL_WORD_ZH = "(取消|停止|停掉|关掉|关闭|删掉|删除|结束|停|关)"
_CANCEL_ZH: tuple[_Length, ...] = (
    (f"{_CANCEL_WORD_ZH}[这个|那个|我的|当前]{_TIMER_ZH}", {}),
    (f"[把][这个|那个|我的]{_TIMER_ZH}(取消|停|停掉|关掉|关|关闭|删掉|删除|去掉)[了|掉]", {}),
    (f"(不用|不要|不需要){_TIMER_ZH}了", {}),
    (f"{_TIMER_ZH}(不用|不要)了", {}),
    ("别(定时|计时|倒计时)了", {}),
    (f"{_CANCEL_WORD_ZH}(所有|全部)[的]{_TIMER_ZH}", {"all": True}),
    (f"[把](所有|全部)[的]{_TIMER_ZH}[都|全|全都](取消|停|停掉|关掉|关|关闭|删掉|删除)[了|掉]", {"all": True}),
    (f"{_CANCEL_WORD_ZH}{{label}}的{_TIMER_ZH}", {}),
    (f"[把]{{label}}的{_TIMER_ZH}(取消|停掉|关掉|删掉)", {}),
)


def set_sentences() -> dict[Language, tuple[Sentence, ...]]:
    """For ``timer.set``."""
    english = (
        *_framed(_FRAMES_EN, _LENGTHS_EN),
        *_framed(_SHORT_FRAMES_EN, _SHORT_EN),
        *_framed(_NAMED_FRAMES_EN, _NAMED_EN),
    )
    return {"en": english, "zh": (*_framed(_FRAMES_ZH, _LENGTHS_ZH), *_framed(_NAMED_FRAMES_ZH, _NAMED_ZH))}


def list_sentences() -> dict[Language, tuple[Sentence, ...]]:
    """For ``timer.list``."""
    return {
        "en": tuple(Sentence(text=text) for text in _LIST_EN),
        "zh": tuple(Sentence(text=text) for text in _LIST_ZH),
    }


def cancel_sentences() -> dict[Language, tuple[Sentence, ...]]:
    """For ``timer.cancel``."""
    return {
        "en": tuple(Sentence(text=text, args=args) for text, args in _CANCEL_EN),
        "zh": tuple(Sentence(text=text, args=args) for text, args in _CANCEL_ZH),
    }


def _framed(frames: tuple[str, ...], lengths: tuple[_Length, ...]) -> Iterator[Sentence]:
    for frame in frames:
        for length, args in lengths:
            yield Sentence(text=frame.replace("<length>", length), args=args)
