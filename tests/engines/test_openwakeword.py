"""openWakeWord on onnxruntime: fires on the wake word alone, however the audio is cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from famulus.core.errors import InvalidArguments, ModelUnavailable
from famulus.engines.openwakeword import OpenWakeWordSpotter
from famulus.engines.protocols import Detection

pytestmark = pytest.mark.models

Make = Callable[..., OpenWakeWordSpotter]


@pytest.fixture
def make(model_files: Callable[[str], dict[str, str]]) -> Make:
    files = model_files("openwakeword")

    def spotter(*words: str, threshold: float = 0.5, **replaced: str) -> OpenWakeWordSpotter:
        paths = {**files, **replaced}
        keywords = {word: paths[word] for word in words}
        return OpenWakeWordSpotter(paths["melspectrogram"], paths["embedding"], keywords, threshold)

    return spotter


def hits(spotter: OpenWakeWordSpotter, pcm: bytes, samples: int) -> list[tuple[Detection, int]]:
    """Every detection with the sample it ends at, the audio fed in blocks of ``samples``."""
    found = []
    for at in range(0, len(pcm), samples * 2):
        block = pcm[at : at + samples * 2]
        if hit := spotter.process(block):
            found.append((hit, (at + len(block)) // 2 - hit.lag_samples))
    return found


@pytest.mark.parametrize("name", ["wake_light_on", "one_breath_light_on", "wake_light_on_10db", "wake_then_silence"])
def test_the_wake_word_is_heard_once_among_others(make: Make, recording: Callable[[str], bytes], name: str) -> None:
    found = hits(make("hey_mycroft", "alexa", "hey_jarvis"), recording(name), 512)
    assert [hit.keyword for hit, _ in found] == ["hey_jarvis"]
    assert 0.5 <= found[0][0].score <= 1
    assert 1.5 < found[0][1] / 16_000 < 2.1


def test_chatter_silence_and_hiss_never_wake_it(make: Make, recording: Callable[[str], bytes]) -> None:
    import numpy as np

    hiss = np.random.default_rng(1).normal(0, 300, 48_000).astype("<i2").tobytes()
    spotter = make("hey_jarvis", "alexa", "hey_mycroft", "hey_rhasspy")
    assert hits(spotter, hiss + recording("no_wake_chatter") + bytes(64_000), 512) == []


def test_the_block_size_does_not_change_what_is_heard(make: Make, recording: Callable[[str], bytes]) -> None:
    pcm = recording("wake_time")
    spotter = make("hey_jarvis")
    ends = set()
    for samples in (7, 1280, 4000, 48_000):
        spotter.reset()
        ends.add(hits(spotter, pcm, samples)[0][1])
    assert len(ends) == 1


def test_a_reset_gives_a_fresh_detector(make: Make, recording: Callable[[str], bytes]) -> None:
    spotter = make("hey_jarvis")
    first = hits(spotter, recording("wake_time"), 512)
    spotter.reset()
    assert hits(spotter, recording("wake_time"), 512) == first


def test_bad_arguments_are_refused(make: Make) -> None:
    with pytest.raises(InvalidArguments, match="at least one"):
        make()
    with pytest.raises(InvalidArguments, match="between 0 and 1"):
        make("alexa", threshold=0)
    with pytest.raises(InvalidArguments, match="whole"):
        make("alexa").process(b"\0")


def test_missing_damaged_and_mistaken_models_are_typed_errors(make: Make, model_files, tmp_path) -> None:
    with pytest.raises(ModelUnavailable, match=r"gone\.onnx is missing"):
        make("alexa", alexa=str(tmp_path / "gone.onnx"))
    junk = tmp_path / "junk.onnx"
    junk.write_bytes(b"junk" * 100)
    with pytest.raises(ModelUnavailable, match="damaged"):
        make("alexa", embedding=str(junk))
    files = model_files("openwakeword")
    with pytest.raises(ModelUnavailable, match="not the openWakeWord model"):
        make("alexa", alexa=files["embedding"])


def test_closing_twice_does_no_harm(make: Make) -> None:
    spotter = make("alexa")
    spotter.close()
    spotter.close()
