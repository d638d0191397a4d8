"""Moonshine: real transcripts, and typed errors where the library would end the process."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from famulus.core.errors import Cancelled, Failed, InvalidArguments, ModelUnavailable
from famulus.engines.moonshine import Moonshine, split_at_quiet, token_table
from famulus.engines.protocols import BYTES_PER_SECOND, SAMPLE_RATE
from famulus.engines.silero import SileroDetector

_MANIFEST = json.loads((Path(__file__).parents[1] / "data/audio/manifest.json").read_text())
_WAKE_END = 2 * BYTES_PER_SECOND  # in each of these recordings "hey jarvis" has ended by then
_SPECIALS = b"\x05<unk>\x03<s>\x04</s>"


@pytest.fixture(scope="module")
def moonshine(model_files: Callable[[str], dict[str, str]]) -> Iterator[Moonshine]:
    engine = Moonshine(**model_files("moonshine-tiny-en"))
    yield engine
    engine.close()


def words(text: str) -> str:
    return re.sub(r"[^a-z0-9% ]", "", text.lower()).strip()


def spoken_part(pcm: bytes) -> bytes:
    """From 0.2 s before the first speech to the end of the last, as the microphone's endpointing cuts it."""
    detector = SileroDetector()
    size = detector.frame_samples * 2
    speech = [at for at in range(0, len(pcm) - size + 1, size) if detector.process(pcm[at : at + size]) > 0.5]
    return pcm[max(0, speech[0] - BYTES_PER_SECOND // 5) : speech[-1] + BYTES_PER_SECOND // 10]


@pytest.mark.models
@pytest.mark.parametrize("name", ["wake_light_on", "wake_two_acts", "wake_timer", "wake_time", "wake_light_on_10db"])
def test_a_command_is_heard_word_for_word(moonshine, recording, job, name: str) -> None:
    pcm = spoken_part(recording(name)[_WAKE_END:])
    heard = moonshine.transcribe(pcm, job)
    assert words(heard.text).replace("10", "ten") == _MANIFEST[name]["text"]
    assert heard.audio_s == pytest.approx(len(pcm) / BYTES_PER_SECOND)
    assert heard.decode_s > 0


@pytest.mark.models
@pytest.mark.parametrize("samples", [0, 1, 160, SAMPLE_RATE])
def test_silence_of_any_length_is_the_empty_text(moonshine, job, samples: int) -> None:
    assert moonshine.transcribe(bytes(samples * 2), job).text == ""


@pytest.mark.models
def test_a_long_segment_is_split_and_joined(moonshine, recording, job) -> None:
    pcm = recording("wake_two_acts") + recording("wake_timer") + recording("wake_light_on")
    assert len(pcm) > 15 * BYTES_PER_SECOND
    text = words(moonshine.transcribe(pcm, job).text)
    assert "open the curtain" in text
    assert text.endswith("turn on the kitchen light")


@pytest.mark.models
def test_bad_audio_is_refused(moonshine, job) -> None:
    with pytest.raises(InvalidArguments, match="whole"):
        moonshine.transcribe(b"\0\0\0", job)
    with pytest.raises(InvalidArguments, match=r"30\.1 s.*30 s"):
        moonshine.transcribe(bytes(int(30.1 * SAMPLE_RATE) * 2), job)


@pytest.mark.models
def test_a_cancelled_job_ends_in_cancelled_and_the_next_one_works(moonshine, recording, job, make_job) -> None:
    job.cancel()
    with pytest.raises(Cancelled):
        moonshine.transcribe(recording("wake_time"), job)
    assert "time" in moonshine.transcribe(recording("wake_time"), make_job()).text


@pytest.mark.models
@pytest.mark.parametrize("role", ["encoder", "decoder", "tokenizer"])
@pytest.mark.parametrize("damage", ["missing", "junk", "truncated"])
def test_a_bad_file_is_a_typed_error_and_never_the_end_of_the_process(model_files, tmp_path, role, damage) -> None:
    files = model_files("moonshine-tiny-en")
    bad = tmp_path / "bad"
    if damage != "missing":
        content = Path(files[role]).read_bytes()
        bad.write_bytes(b"not a model " * 50 if damage == "junk" else content[: len(content) // 2])
    with pytest.raises(ModelUnavailable):
        Moonshine(**{**files, role: str(bad)})


@pytest.mark.models
def test_a_closed_recogniser_says_so(model_files, recording, job) -> None:
    engine = Moonshine(**model_files("moonshine-tiny-en"))
    engine.close()
    engine.close()
    with pytest.raises(Failed):
        engine.transcribe(recording("wake_time"), job)


def test_the_token_table_reads_both_length_forms_and_leaves_out_the_empty_token() -> None:
    long = bytes(range(1, 200))
    data = _SPECIALS + b"\x00" + bytes([len(long) % 128 + 128, len(long) // 128]) + long
    lines = token_table(data)
    assert [line.split()[1] for line in lines] == ["0", "1", "2", "4"]
    assert base64.b64decode(lines[-1].split()[0]) == long


@pytest.mark.parametrize("data", [b"", b"\x05", b"\x01a", _SPECIALS + b"\x09short", _SPECIALS + b"\x80"])
def test_a_token_table_that_does_not_add_up_is_refused(data: bytes) -> None:
    with pytest.raises(ModelUnavailable, match="tokenizer"):
        token_table(data)


def test_audio_is_cut_where_it_is_quiet() -> None:
    samples = np.ones(18 * SAMPLE_RATE, np.float32)
    samples[int(8.4 * SAMPLE_RATE) : int(8.6 * SAMPLE_RATE)] = 0
    parts = split_at_quiet(samples)
    assert [len(part) / SAMPLE_RATE for part in parts] == pytest.approx([8.5, 9.5], abs=0.1)
    assert np.array_equal(np.concatenate(parts), samples)
    assert split_at_quiet(samples[: 10 * SAMPLE_RATE])[0].size == 10 * SAMPLE_RATE
    assert split_at_quiet(samples[:0]) == []
