"""microWakeWord: fires on the wake word alone, however the audio is cut, and survives bad models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pymicro_wakeword
import pytest
from famulus.core.errors import InvalidArguments, ModelUnavailable, NotFound
from famulus.engines.micro import MicroSpotter
from famulus.engines.protocols import Detection

_PACKAGED = Path(pymicro_wakeword.__file__).parent / "models"


@pytest.fixture
def own_model(tmp_path: Path) -> Path:
    """A description outside the package, as a user would add one."""
    shutil.copy(_PACKAGED / "hey_jarvis.tflite", tmp_path)
    return Path(shutil.copy(_PACKAGED / "hey_jarvis.json", tmp_path / "hey_house.json"))


def hits(spotter: MicroSpotter, pcm: bytes, samples: int) -> list[tuple[Detection, int]]:
    """Every detection with the sample it ends at, the audio fed in blocks of ``samples``."""
    found = []
    for at in range(0, len(pcm), samples * 2):
        block = pcm[at : at + samples * 2]
        if hit := spotter.process(block):
            found.append((hit, (at + len(block)) // 2 - hit.lag_samples))
    return found


@pytest.mark.parametrize("name", ["wake_light_on", "one_breath_light_on", "wake_light_on_10db", "wake_then_silence"])
def test_the_wake_word_is_heard_once(recording: Callable[[str], bytes], name: str) -> None:
    found = hits(MicroSpotter(["hey_jarvis"]), recording(name), 512)
    assert [hit.keyword for hit, _ in found] == ["hey_jarvis"]
    assert 0.97 < found[0][0].score <= 1
    assert 1.5 < found[0][1] / 16_000 < 2.1


def test_chatter_and_silence_never_wake_it(recording: Callable[[str], bytes]) -> None:
    spotter = MicroSpotter(["hey_jarvis", "okay_nabu", "alexa", "hey_mycroft"])
    assert hits(spotter, recording("no_wake_chatter") + bytes(64_000), 512) == []


def test_the_block_size_does_not_change_what_is_heard(recording: Callable[[str], bytes]) -> None:
    pcm = recording("wake_time")
    whole = hits(MicroSpotter(["hey_jarvis"]), pcm, 160)
    assert len(whole) == 1
    for samples in (1, 7, 1280, 48_000):
        assert hits(MicroSpotter(["hey_jarvis"]), pcm, samples)[0] == (
            Detection("hey_jarvis", whole[0][0].score, lag_samples=(-whole[0][1]) % samples if samples > 1 else 0),
            whole[0][1],
        )


def test_a_second_word_shares_the_features_and_changes_nothing(
    recording: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    original = pymicro_wakeword.MicroWakeWordFeatures
    monkeypatch.setattr(pymicro_wakeword, "MicroWakeWordFeatures", lambda: made.append(1) or original())
    both = MicroSpotter(["okay_nabu", "hey_jarvis"])
    assert both.keywords == ("okay_nabu", "hey_jarvis")
    assert len(made) == 1
    pcm = recording("wake_timer")
    assert hits(both, pcm, 512) == hits(MicroSpotter(["hey_jarvis"]), pcm, 512)


def test_after_a_reset_half_a_wake_word_does_not_count(recording: Callable[[str], bytes]) -> None:
    spotter = MicroSpotter(["hey_jarvis"])
    pcm = recording("wake_time")
    end = hits(spotter, pcm, 160)[0][1] * 2
    assert hits(spotter, pcm[: end - 6400], 160) == []
    spotter.reset()
    assert hits(spotter, pcm[end - 6400 :], 160) == []


def test_an_own_model_is_named_by_its_file(recording: Callable[[str], bytes], own_model: Path) -> None:
    spotter = MicroSpotter([str(own_model)])
    assert spotter.keywords == ("hey_house",)
    assert [hit.keyword for hit, _ in hits(spotter, recording("wake_time"), 512)] == ["hey_house"]
    spotter.close()
    spotter.close()


def test_a_threshold_overrides_the_models_own(recording: Callable[[str], bytes]) -> None:
    pcm = recording("wake_time")
    assert hits(MicroSpotter(["hey_jarvis"], threshold=0.999), pcm, 512) == []
    early = hits(MicroSpotter(["hey_jarvis"], threshold=0.3), pcm, 160)
    assert early[0][1] < hits(MicroSpotter(["hey_jarvis"]), pcm, 160)[0][1]


def test_an_unknown_word_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"hey_marvin.*alexa, hey_jarvis, hey_mycroft, okay_nabu"):
        MicroSpotter(["hey_marvin"])


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidArguments, match="at least one"):
        MicroSpotter([])
    with pytest.raises(InvalidArguments, match="twice"):
        MicroSpotter(["alexa", "alexa"])
    with pytest.raises(InvalidArguments, match="between 0 and 1"):
        MicroSpotter(["alexa"], threshold=1.5)
    with pytest.raises(InvalidArguments, match="whole"):
        MicroSpotter(["alexa"]).process(b"\0")


@pytest.mark.parametrize("content", [None, b"", b"junk" * 100, "half"])
def test_a_bad_model_file_is_a_typed_error_and_never_a_crash(own_model: Path, content: bytes | str | None) -> None:
    model = own_model.parent / "hey_jarvis.tflite"
    if content is None:
        model.unlink()
    else:
        raw = model.read_bytes()
        model.write_bytes(raw[: len(raw) // 2] if isinstance(content, str) else content)
    with pytest.raises(ModelUnavailable, match=r"hey_jarvis\.tflite"):
        MicroSpotter([str(own_model)])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 3}', json.dumps({"model": "hey_jarvis.tflite"})])
def test_a_bad_description_is_a_typed_error(own_model: Path, text: str) -> None:
    own_model.write_text(text)
    with pytest.raises(ModelUnavailable, match="hey_house"):
        MicroSpotter([str(own_model)])


def test_a_description_that_is_not_there_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"gone\.json"):
        MicroSpotter([str(tmp_path / "gone.json")])


def test_a_model_that_vanishes_under_a_running_spotter_is_a_typed_error(own_model: Path) -> None:
    spotter = MicroSpotter([str(own_model)])
    (own_model.parent / "hey_jarvis.tflite").unlink()
    with pytest.raises(ModelUnavailable):
        spotter.reset()
