"""Text that may be shown: whole characters, and nothing of a stop string, however the bytes are cut."""

from __future__ import annotations

import pytest
from famulus.engines.text_stream import TextStream
from hypothesis import given
from hypothesis import strategies as st


def test_a_character_split_over_tokens_comes_out_whole() -> None:
    stream = TextStream()
    assert [stream.feed(bytes([byte])) for byte in "é好".encode()] == ["", "é", "", "", "好"]
    assert stream.finish() == ""


def test_half_a_character_at_the_end_is_dropped() -> None:
    stream = TextStream()
    assert stream.feed("a好".encode()[:-1]) == "a"
    assert stream.finish() == ""


def test_a_stop_string_split_over_tokens_is_never_shown() -> None:
    stream = TextStream(["</done>"])
    assert [stream.feed(part) for part in (b"yes<", b"/do", b"ne>", b"more")] == ["yes", "", "", ""]
    assert stream.stopped
    assert stream.finish() == ""


def test_what_only_began_like_a_stop_string_is_shown() -> None:
    stream = TextStream(["</done>"])
    assert stream.feed(b"a</do") == "a"
    assert stream.feed(b"or>") == "</door>"
    assert stream.feed(b"b</") == "b"
    assert stream.finish() == "</"
    assert not stream.stopped


def test_the_earliest_of_several_stop_strings_counts_and_an_empty_one_never_does() -> None:
    stream = TextStream(["", "two", "one"])
    assert stream.feed(b"zero one two") == "zero "
    assert stream.stopped


@given(text=st.text(), stop=st.text(min_size=1, max_size=3), cuts=st.lists(st.integers(1, 4), min_size=1))
@pytest.mark.timeout(60)
def test_any_cut_gives_the_text_before_the_stop_string(text: str, stop: str, cuts: list[int]) -> None:
    stream = TextStream([stop])
    data, shown, turn = text.encode(), "", 0
    while data:
        size = cuts[turn % len(cuts)]
        shown += stream.feed(data[:size])
        data, turn = data[size:], turn + 1
    shown += stream.finish()
    assert shown == text.split(stop, maxsplit=1)[0]
