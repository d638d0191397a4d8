"""What callers send, checked: the text of an utterance and the options of a call."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from dbus_fast import Variant

from ...core.errors import InvalidArguments

MAX_TEXT_BYTES = 16 * 1024
MAX_SESSION = 64
MAX_TIMEOUT_S = 600
_LANGUAGES = ("auto", "en", "zh")


@dataclass(frozen=True)
class RunOptions:
    """The options of Ask and Start. ``timeout_s`` is None where the caller sets no deadline of its own."""

    language: str = "auto"
    session: str = ""
    timeout_s: float | None = None


def check_text(text: str) -> str:
    """The text without outer white space; raises ``InvalidArguments`` for one that no person would type."""
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise InvalidArguments(f"The text is longer than {MAX_TEXT_BYTES // 1024} KB; send less.")
    text = text.strip()
    if not text:
        raise InvalidArguments("The text is empty; send what should be done.")
    if any(unicodedata.category(c) == "Cc" for c in text):
        raise InvalidArguments("The text holds control characters; send plain text on one line.")
    return text


def run_options(options: Mapping[str, Variant]) -> RunOptions:
    """Raises ``InvalidArguments`` for an option that is unknown, of another type, or out of range."""
    only(options, ("language", "session", "timeout_s"))
    language = text_option(options, "language", "auto")
    if language not in _LANGUAGES:
        raise InvalidArguments(
            f"The option language must be one of {', '.join(_LANGUAGES)}{_hint(language, _LANGUAGES)}."
        )
    session = text_option(options, "session", "")
    if len(session) > MAX_SESSION or not session.isprintable():
        raise InvalidArguments(f"The option session must be at most {MAX_SESSION} printable characters.")
    timeout_s: float | None = None
    if "timeout_s" in options:
        value = options["timeout_s"].value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIMEOUT_S:
            raise InvalidArguments(
                f"The option timeout_s must be a number (d) of seconds above 0, at most {MAX_TIMEOUT_S}."
            )
        timeout_s = float(value)
    return RunOptions(language, session, timeout_s)


def only(options: Mapping[str, Variant], known: tuple[str, ...]) -> None:
    """Raise ``InvalidArguments`` for the first option that is not known."""
    for name in options:
        if name not in known:
            there = f"the options are {', '.join(known)}" if known else "there are no options"
            raise InvalidArguments(f"There is no option {name[:40]!r}{_hint(name, known)}; {there}.")


def text_option(options: Mapping[str, Variant], name: str, default: str) -> str:
    """An option that is a string; raises ``InvalidArguments`` for another type."""
    if name not in options:
        return default
    value = options[name].value
    if options[name].signature != "s" or not isinstance(value, str):
        raise InvalidArguments(f"The option {name} must be a string (s).")
    return value


def _hint(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {close[0]}" if close else ""
