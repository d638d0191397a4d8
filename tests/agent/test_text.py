from __future__ import annotations

import pytest
from famulus.core.errors import InvalidArguments
from famulus.daemon.agent.stop import is_stop
from famulus.daemon.agent.text import check_utterance, comparable, language_of, normalise, split_wishes
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("text", ["x" * 2_000_000, "", "   \n", "a\0b", "a\x1b[2J", "a\ud800b"])
def test_text_that_nobody_says_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        check_utterance(text)
    assert ":" in caught.value.message and len(caught.value.message) < 200


@given(st.text())
def test_any_text_is_taken_or_refused_with_the_typed_error(text: str) -> None:
    try:
        checked = check_utterance(text)
    except InvalidArguments:
        return
    for language in ("en", "zh"):
        normalised = normalise(checked, language)
        assert normalise(normalised, language) == normalised
        split_wishes(normalised, language)
        is_stop(normalised)


@pytest.mark.parametrize(
    ("heard", "normalised"),
    [
        ("Set the volume to 30%.", "Set the volume to 30 percent"),
        ("Set the volume to thirty per cent", "Set the volume to thirty percent"),
        ("Set the volume to 30 percent!", "Set the volume to 30 percent"),
        ("  Turn   on the light, ", "Turn on the light"),
        ("Ｔｕｒｎ on the light", "Turn on the light"),
    ],
)
def test_one_spelling_for_what_sounds_the_same(heard: str, normalised: str) -> None:
    assert normalise(heard, "en") == normalised


def test_chinese_percent_signs_are_read_as_words() -> None:
    assert normalise("音量调到３０％。", "zh") == "音量调到百分之30"


def test_language_is_the_configured_one_or_seen_in_the_text() -> None:
    assert language_of("turn on the light") == "en"
    assert language_of("把灯打开") == "zh"
    assert language_of("把灯打开", "en") == "en"


@pytest.mark.parametrize("text", ["Stop", "stop.", "Cancel!", "Never mind", "停", "取消。", "STOP!!"])
def test_stop_words_are_known_however_they_are_written(text: str) -> None:
    assert is_stop(normalise(text, language_of(text)))


@pytest.mark.parametrize("text", ["stop the music", "cancel the timer", "don't stop", "取消闹钟"])
def test_a_stop_word_inside_a_sentence_is_not_a_stop(text: str) -> None:
    assert not is_stop(normalise(text, language_of(text)))


@pytest.mark.parametrize(
    ("text", "language", "parts"),
    [
        ("turn off the lamp and open the curtain", "en", ["turn off the lamp", "open the curtain"]),
        ("turn off the lamp, then open the curtain", "en", ["turn off the lamp", "open the curtain"]),
        ("关灯,然后打开窗帘", "zh", ["关灯", "打开窗帘"]),
        ("play the band", "en", ["play the band"]),
    ],
)
def test_two_wishes_are_parted_at_connecting_words(text: str, language: str, parts: list[str]) -> None:
    assert split_wishes(text, language) == parts


def test_comparable_ignores_case_and_separators() -> None:
    assert comparable("Turn ON, the light") == "turn on the light"
