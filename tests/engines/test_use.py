"""The sentence encoder: the reference's own vectors, a classifier that survives its process, refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from famulus.core.errors import Cancelled, InvalidArguments, ModelUnavailable, NotFound
from famulus.engines.classifier import Classifier, fit
from famulus.engines.handles import EmbedderHandle
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.slot import Slot
from famulus.engines.unigram import UnigramTokenizer
from famulus.engines.use import Use

KEY = "0123456789abcdef"
TEXTS = ["turn on the light", "lights on please", "开灯", "what time is it", "tell me the time", "几点了"]
LABELS = ["light", "light", "light", "time", "time", "time"]


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    path = Path(__file__).parent.parent / "data" / "use_reference.json"
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


@pytest.fixture(scope="module")
def files(model_files: Any) -> dict[str, str]:
    paths: dict[str, str] = model_files("use")
    return paths


@pytest.fixture(scope="module")
def engine(files: dict[str, str]) -> Use:
    return Use(**files)


@pytest.mark.models
def test_pieces_and_vectors_are_those_of_the_reference(
    engine: Use, files: dict[str, str], reference: dict[str, Any], job: Any
) -> None:
    tokenizer = UnigramTokenizer(Path(files["tokenizer"]))
    assert {text: tokenizer.encode(text) for text in reference["pieces"]} == reference["pieces"]
    vectors = engine.embed(list(reference["vectors"]), job)
    for vector, expected in zip(vectors, reference["vectors"].values(), strict=True):
        assert vector[:8] == pytest.approx(expected, abs=2e-5)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)


@pytest.mark.models
def test_a_text_has_the_same_vector_in_any_company(engine: Use, job: Any) -> None:
    alone = engine.embed(["play some jazz"], job)[0]
    together = engine.embed(["x" * 3000, "play some jazz", "", "灯"], job)[1]
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.models
def test_nothing_said_is_still_a_vector(engine: Use, job: Any) -> None:
    assert engine.embed([], job) == []
    assert len(engine.embed(["  "], job)[0]) == 512


@pytest.mark.models
def test_labels_are_learnt_across_languages(engine: Use, job: Any) -> None:
    assert engine.fit(KEY, TEXTS, LABELS, job) == KEY
    light, time = engine.classify(KEY, ["switch the lamp on", "现在什么时间"], job)
    assert light[0] > 0.7
    assert time[1] > 0.7
    assert sum(light) == pytest.approx(1, abs=1e-5)


@pytest.mark.models
def test_an_unknown_key_is_not_found_and_bad_examples_are_refused(engine: Use, job: Any) -> None:
    with pytest.raises(NotFound):
        engine.classify("f" * 16, ["light"], job)
    with pytest.raises(InvalidArguments):
        engine.fit("../../etc/passwd", TEXTS, LABELS, job)
    with pytest.raises(InvalidArguments):
        engine.fit(KEY, TEXTS, LABELS[:-1], job)


@pytest.mark.models
def test_a_cancelled_fit_leaves_nothing(files: dict[str, str], make_job: Any, tmp_path: Path) -> None:
    engine = Use(**files, cache_dir=str(tmp_path))
    cancelled = make_job()
    cancelled.cancel()
    with pytest.raises(Cancelled):
        engine.fit(KEY, TEXTS, LABELS, cancelled)
    with pytest.raises(NotFound):
        engine.classify(KEY, ["light"], make_job())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.models
async def test_a_new_process_classifies_without_a_fit(pool: Pool, files: dict[str, str], tmp_path: Path) -> None:
    options = {**files, "cache_dir": str(tmp_path)}
    slot = Slot("use", EmbedderHandle, lambda: ProcessHost("use", options), pool=pool, need_bytes=150 << 20)
    async with slot.lease(priority="voice") as embedder:
        await embedder.fit(KEY, TEXTS, LABELS, timeout_s=30)
        before = await embedder.classify(KEY, ["lamp on"], timeout_s=10)
    await slot.evict()
    async with slot.lease(priority="voice") as embedder:
        after = await embedder.classify(KEY, ["lamp on"], timeout_s=10)
    assert slot.snapshot().loads == 2
    assert after[0] == pytest.approx(before[0], abs=1e-2)


@pytest.mark.models
def test_a_broken_file_of_a_classifier_costs_only_a_fit(files: dict[str, str], job: Any, tmp_path: Path) -> None:
    Use(**files, cache_dir=str(tmp_path)).fit(KEY, TEXTS, LABELS, job)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:500])
    engine = Use(**files, cache_dir=str(tmp_path))
    with pytest.raises(NotFound):
        engine.classify(KEY, ["light"], job)
    engine.fit(KEY, TEXTS, LABELS, job)
    assert engine.classify(KEY, ["light"], job)


@pytest.mark.parametrize("content", [None, b"", b"not a model", b"\x0a\xff\xff\xff\xff\x0f"])
def test_a_file_that_is_no_model_is_named_with_what_to_do(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "sp.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnavailable, match="famulus models pull use"):
        Use(tokenizer=str(path), weights=str(path))


def test_rare_labels_weigh_as_much_as_frequent_ones() -> None:
    near, far = np.eye(4, dtype=np.float32)[:2]
    texts = ["a b"] * 30 + ["c d"]
    classifier = fit(texts, np.stack([near] * 30 + [far]), ["often"] * 30 + ["seldom"])
    often, seldom = classifier.probabilities(["a b", "c d"], np.stack([near, far]))
    assert often[0] > 0.8
    assert seldom[1] > 0.8


def test_a_classifier_reads_back_what_it_wrote(tmp_path: Path) -> None:
    vectors = np.eye(4, dtype=np.float32)
    classifier = fit(["a", "b", "c", "d"], vectors, ["x", "x", "y", "y"])
    classifier.save(tmp_path / "deep" / "c.npz", ["a", "b", "c", "d"])
    again = Classifier.load(tmp_path / "deep" / "c.npz")
    assert again.labels == ["x", "y"]
    assert again.probabilities(["a"], vectors[:1]) == pytest.approx(classifier.probabilities(["a"], vectors[:1]))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["c.npz"]
