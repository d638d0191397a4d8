import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from famulus.bench.recordings import load_recordings, read_pcm
from famulus.core.errors import InvalidArguments, NotFound

BUNDLED = Path(__file__).parents[1] / "data" / "audio"


def folder(tmp_path: Path, manifest: object, *audio: str) -> Path:
    (tmp_path / "manifest.json").write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    for name in audio:
        soundfile.write(tmp_path / name, np.zeros(1600, "int16"), 16_000)
    return tmp_path


def test_every_bundled_recording_has_audio_and_expected_calls() -> None:
    recordings = load_recordings(BUNDLED)
    assert len(recordings) == 9
    assert all(recording.calls is not None for recording in recordings)
    assert [r.name for r in recordings if r.calls == ()] == ["no_wake_chatter", "wake_then_silence"]


def test_manifest_order_and_optional_keys_are_kept(tmp_path: Path) -> None:
    manifest = {"b": {"wake": None, "text": ""}, "a": {"wake": "hey jarvis", "text": "x", "pause_s": 0.7, "snr_db": 5}}
    b, a = load_recordings(folder(tmp_path, manifest, "a.wav", "b.flac"))
    assert (b.name, b.wake, b.pause_s, b.calls) == ("b", None, None, None)
    assert (a.name, a.pause_s, a.snr_db, a.path.suffix) == ("a", 0.7, 5, ".wav")


def test_only_selects_and_an_unknown_name_is_named(tmp_path: Path) -> None:
    made = folder(tmp_path, {n: {"wake": None, "text": ""} for n in "ab"}, "a.wav", "b.wav")
    assert [r.name for r in load_recordings(made, ["b"])] == ["b"]
    with pytest.raises(NotFound, match=r"has no c; it has a, b"):
        load_recordings(made, ["c"])


def test_missing_audio_is_named_all_at_once(tmp_path: Path) -> None:
    made = folder(tmp_path, {n: {"wake": None, "text": ""} for n in "abc"}, "b.wav")
    with pytest.raises(NotFound, match=r"for a, c"):
        load_recordings(made)


def test_missing_manifest_says_what_it_is_for(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"manifest\.json is missing"):
        load_recordings(tmp_path)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("{", "is not JSON"),
        ([], "at the top"),
        ({"a": {"text": "x"}}, r"at a\.wake"),
        ({"a": {"wake": None, "text": "x", "loud": 1}}, r"at a\.loud"),
        ({"a": {"wake": None, "text": "x", "pause_s": -1}}, r"at a\.pause_s"),
    ],
)
def test_bad_manifest_is_refused_with_the_place(tmp_path: Path, manifest: object, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        load_recordings(folder(tmp_path, manifest))


def test_pcm_is_16_khz_mono_whatever_the_file_holds(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", np.full((48_000, 2), 0.5), 48_000)
    assert abs(len(read_pcm(tmp_path / "x.wav")) - 32_000) <= 64


def test_pcm_of_a_16_bit_file_is_bit_exact(tmp_path: Path) -> None:
    samples = np.array([0, 1, -1, 32767, -32768, 1234], "int16")
    soundfile.write(tmp_path / "x.flac", samples, 16_000)
    assert read_pcm(tmp_path / "x.flac") == samples.astype("<i2").tobytes()


def test_a_file_that_is_no_sound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_text("no sound")
    with pytest.raises(InvalidArguments, match="not a sound file"):
        read_pcm(tmp_path / "x.wav")
