"""What an utterance must be before anything looks at it, and the one form in which sentences are compared."""

from __future__ import annotations

import re
import unicodedata

from ...core.errors import InvalidArguments

MAX_UTTERANCE_BYTES = 16 * 1024
MAX_WORDS_BYTES = 1000
"""Longer than anything people say at once; sentences and models are not tried on more."""

_CJK = re.compile(r"[㐀-䶿一-鿿豈-﫿]")
_PERCENT = re.compile(r"(?<=\d)\s*%|\bper\s*cent\b", re.IGNORECASE)
_PERCENT_ZH = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_EDGES = " \t\n\r.,;:!?…。，、；：！？\"'“”‘’"
_SEPARATORS = re.compile(r"[,;，；、。！？!?]+|\.(?=\s|$)")
_CONNECTORS = {
    "en": re.compile(r"\s*(?:[,;.]+\s*)?\b(?:and then|and also|and|then)\b\s*|\s*[,;.]+\s+", re.IGNORECASE),
    "zh": re.compile(r"\s*[，,；;。、]+\s*(?:然后|并且|而且|顺便|再|还有|同时)?|然后|并且|而且|顺便|再|还有|同时"),
}


def check_utterance(text: str) -> str:
    """The text without surrounding white space. Raises ``InvalidArguments`` for what nobody can have said."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_UTTERANCE_BYTES:
        raise InvalidArguments(
            f"The text has {size:,} bytes and the limit is {MAX_UTTERANCE_BYTES:,}: say it in fewer words."
        )
    for char in text:
        if char not in "\n\t" and unicodedata.category(char) in {"Cc", "Cs"}:
            raise InvalidArguments(
                f"The text holds U+{ord(char):04X}, which is not a character people write: send plain UTF-8 text."
            )
    text = text.strip()
    if not text:
        raise InvalidArguments("The text is empty: say or type a sentence.")
    return text


def language_of(text: str, configured: str = "auto") -> str:
    """``en`` or ``zh``: as configured, else Chinese where there is a Chinese character."""
    if configured in _CONNECTORS:
        return configured
    return "zh" if _CJK.search(text) else "en"


def normalise(text: str, language: str) -> str:
    """One spelling for what sounds the same: NFKC, no outer punctuation, percent in words.

    Recognisers write "30%", "30 percent" or "thirty per cent"; templates say ``{percent} percent`` and
    ``百分之{percent}``. Inner separators stay: they part two wishes.
    """
    text = unicodedata.normalize("NFKC", text).strip(_EDGES)
    text = _PERCENT_ZH.sub(r"百分之\1", text) if language == "zh" else _PERCENT.sub(" percent", text)
    return re.sub(r"\s+", " ", text).strip()


def comparable(text: str) -> str:
    """A normalised text without case and inner separators: what stop words and the cache compare."""
    return re.sub(r"\s+", " ", _SEPARATORS.sub(" ", text)).strip().casefold()


def split_wishes(text: str, language: str) -> list[str]:
    """The parts of a normalised sentence that may each be a wish of its own: "off the lamp" and "open …"."""
    return [part for part in (p.strip(_EDGES) for p in _CONNECTORS[language].split(text)) if part]
