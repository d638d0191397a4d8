"""What people say to the built-in capabilities is understood without a model, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from famulus.capabilities.builtin import clock, timer
from famulus.capabilities.command import Call
from famulus.capabilities.manifest import parse_manifest
from famulus.capabilities.registry import Registry
from famulus.daemon.agent.sentences import SentenceMatcher
from famulus.daemon.agent.text import language_of, normalise

CAPABILITIES = [clock.capability(), timer.capability()]
COMMANDS = [command for capability in CAPABILITIES for command in capability.commands]
MATCHERS = {language: SentenceMatcher(language, COMMANDS) for language in ("en", "zh")}

SAID: list[tuple[str, str, dict[str, Any]]] = [
    ("What time is it?", "clock.time", {}),
    ("what's the time right now", "clock.time", {}),
    ("tell me the time please", "clock.time", {}),
    ("Do you know what time it is", "clock.time", {}),
    ("What does the clock say?", "clock.time", {}),
    ("现在几点了？", "clock.time", {}),
    ("请问现在几点钟", "clock.time", {}),
    ("现在时间是多少", "clock.time", {}),
    ("报一下时间", "clock.time", {}),
    ("What's the date today?", "clock.date", {}),
    ("what day of the week is it", "clock.date", {}),
    ("tell me today's date", "clock.date", {}),
    ("今天几号", "clock.date", {}),
    ("今天是星期几", "clock.date", {}),
    ("告诉我今天的日期", "clock.date", {}),
    ("Set a timer for 5 minutes.", "timer.set", {"minutes": 5}),
    ("set a timer for twenty-five minutes please", "timer.set", {"minutes": 25}),
    ("Set a 25-minute timer", "timer.set", {"minutes": 25}),
    ("start a two-hour timer", "timer.set", {"hours": 2}),
    ("TIMER FOR A QUARTER OF AN HOUR", "timer.set", {"minutes": 15}),
    ("Timer, 8 minutes.", "timer.set", {"minutes": 8}),
    ("Count down an hour and a half for me.", "timer.set", {"hours": 1, "minutes": 30}),
    ("Give me a shout in forty minutes.", "timer.set", {"minutes": 40}),
    ("set a timer for half an hour", "timer.set", {"minutes": 30}),
    ("set a timer for an hour and ten minutes", "timer.set", {"hours": 1, "minutes": 10}),
    ("set a timer for 2 hours 15 minutes", "timer.set", {"hours": 2, "minutes": 15}),
    ("set a timer for two and a half hours", "timer.set", {"hours": 2, "minutes": 30}),
    ("set a timer for one minute and thirty seconds", "timer.set", {"minutes": 1, "seconds": 30}),
    ("set a pasta timer for 10 minutes", "timer.set", {"label": "pasta", "minutes": 10}),
    ("set a timer for 10 minutes for the eggs", "timer.set", {"label": "eggs", "minutes": 10}),
    ("定一个10分钟的计时器", "timer.set", {"minutes": 10}),
    ("定个二十分钟的闹钟", "timer.set", {"minutes": 20}),
    ("一个小时之后叫我一声", "timer.set", {"hours": 1}),
    ("定时半小时", "timer.set", {"minutes": 30}),
    ("倒计时三十秒", "timer.set", {"seconds": 30}),
    ("帮我定一个一小时三十分钟的定时器", "timer.set", {"hours": 1, "minutes": 30}),
    ("两个半小时后叫我", "timer.set", {"hours": 2, "minutes": 30}),
    ("定一个五分钟的泡面闹钟", "timer.set", {"label": "泡面", "minutes": 5}),
    ("what timers are running", "timer.list", {}),
    ("how much time is left on the timer", "timer.list", {}),
    ("有哪些定时器", "timer.list", {}),
    ("定时器还剩多久", "timer.list", {}),
    ("Cancel the timer.", "timer.cancel", {}),
    ("cancel all my timers", "timer.cancel", {"all": True}),
    ("cancel the pasta timer", "timer.cancel", {"label": "pasta"}),
    ("cancel the 5-minute timer", "timer.cancel", {"label": "5-minute"}),
    ("取消定时器", "timer.cancel", {}),
    ("把所有闹钟都取消了", "timer.cancel", {"all": True}),
    ("取消泡面的定时器", "timer.cancel", {"label": "泡面"}),
]


def understood(text: str) -> list[Call]:
    language = language_of(text)
    return MATCHERS[language].match(normalise(text, language))


@pytest.mark.parametrize(("text", "method", "args"), SAID, ids=[text for text, _, _ in SAID])
def test_it_is_understood(text: str, method: str, args: dict[str, Any]) -> None:
    assert understood(text) == [Call(method=method, args=args)]


@pytest.mark.parametrize(
    "text",
    [
        *("what is the weather today", "turn on the kitchen light", "remind me to buy milk", "play time by pink floyd"),
        *("hush the music for a minute", "stop", "what time does the shop open", "set the volume to 30 percent"),
        *("今天天气怎么样", "打开厨房的灯", "什么时候下雨", "提醒我买牛奶", "取消"),
    ],
)
def test_other_things_are_left_alone(text: str) -> None:
    assert understood(text) == []


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability.name)
def test_a_built_in_would_pass_as_an_apps_manifest(capability: Any) -> None:
    assert parse_manifest(capability.model_dump_json()) == capability
    Registry().register(capability, clock.ClockProvider())


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda capability: capability.name)
def test_each_command_has_eight_sentences_in_each_language(capability: Any) -> None:
    for command in capability.commands:
        assert [len(command.sentences[language]) >= 8 for language in ("en", "zh")] == [True, True]
