"""L0: the words that stop everything. They bypass every queue and gate."""

from __future__ import annotations

from .text import comparable

STOP_WORDS = frozenset(
    {
        *("stop", "stop it", "stop that", "please stop", "stop please", "cancel", "cancel that", "cancel it"),
        *("never mind", "nevermind", "forget it", "abort", "quiet", "be quiet", "shut up", "enough"),
        *("停", "停下", "停止", "停下来", "取消", "算了", "别说了", "不用了", "安静", "闭嘴", "够了"),
    }
)


def is_stop(text: str) -> bool:
    """True when the whole of a normalised text is a stop word."""
    return comparable(text) in STOP_WORDS
