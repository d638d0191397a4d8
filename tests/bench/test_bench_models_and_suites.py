"""Each suite once, as small as it goes, on real processes: what it reports, not how fast it is."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from famulus.bench import language_model
from famulus.bench.__main__ import main
from famulus.bench.gguf_file import F32, Tensor, write_gguf
from famulus.bench.language_model import Model, Worker
from famulus.bench.llm import _COLD, _DISK, _WARM
from famulus.bench.peer import peer_missing
from famulus.bench.random_gguf import SIZES, random_model, vocabulary
from famulus.bench.workload import MOST, make_commands, make_prompt, vocabulary_text
from famulus.core.errors import NotFound


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(language_model, "cache_folder", lambda: tmp_path / "cache")


def run(tmp_path: Path, *argv: str) -> dict[str, Any]:
    out = tmp_path / "out.json"
    assert main([*argv, "--no-compare", "--json", str(out)]) == 0
    body: dict[str, Any] = json.loads(out.read_text())
    assert body["before"] is not None and body["after"] is not None
    return body


def samples(body: dict[str, Any]) -> dict[tuple[str, str], list[float]]:
    return {(m["subject"], m["figure"]): m["samples"] for m in body["measurements"]}


def test_a_gguf_is_whole_or_not_there(tmp_path: Path) -> None:
    def broken() -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_gguf(tmp_path / "x.gguf", {"general.architecture": "x"}, [Tensor("t", (4,), F32, broken)])
    assert list(tmp_path.iterdir()) == []


def test_random_models_are_the_same_each_time_and_made_once(tmp_path: Path) -> None:
    one = random_model("tiny", tmp_path / "a", "turn on the light")
    other = random_model("tiny", tmp_path / "b", "turn on the light")
    assert hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()
    made = one.stat().st_mtime_ns
    assert random_model("tiny", tmp_path / "a", "turn on the light").stat().st_mtime_ns == made
    with pytest.raises(NotFound, match=r"choose one of tiny, 0\.8b, 2b"):
        random_model("9b", tmp_path, "")


def test_the_2b_model_has_the_size_of_the_real_one() -> None:
    from famulus.bench.random_gguf import _tensors

    size = SIZES["2b"]
    tensors = list(_tensors(size, size.vocabulary))
    parameters = sum(tensor.size for tensor in tensors)
    assert 1.19e9 < parameters < 1.21e9  # bytes, as measured of the quantised release
    assert sum("attn_k.weight" in tensor.name for tensor in tensors) == 6  # one layer in four has attention


def test_words_of_the_prompts_become_few_tokens() -> None:
    tokens, merges = vocabulary(vocabulary_text(), 0)
    assert len(tokens) == len(set(tokens))
    assert {"Ġkitchen", "Ġtemperature"[:4]} & set(tokens)
    assert all(merge.replace(" ", "") in tokens for merge in merges)


async def test_a_random_hybrid_model_answers_and_keeps_its_prefix(tmp_path: Path) -> None:
    path = random_model("tiny", tmp_path, vocabulary_text())
    prompt = make_prompt(8, context=2048)
    worker = Worker(Model("tiny", path, ""), threads=1, context=2048, state_dir=tmp_path / "states")
    await worker.start()
    try:
        cold = await worker.ask(prompt.prefix, "x", max_tokens=4)
        warm = await worker.ask(prompt.prefix, "x", grammar=prompt.grammar, max_tokens=4)
    finally:
        await worker.stop()
    assert (cold.completion.prefix_source, warm.completion.prefix_source) == ("decoded", "kept")
    assert 0 < cold.first_s <= cold.total_s
    assert len(prompt.prefix) / (cold.completion.prompt_tokens - 1) > 2.5  # characters per token, as real ones have


def test_commands_are_as_many_as_asked_for_and_each_once() -> None:
    assert len({command.name for command in make_commands(MOST)}) == MOST == 256
    assert make_commands(16) == make_commands(256)[:16]
    assert len(make_prompt(256, context=2048).prefix) < 3 * 2048


@pytest.mark.timeout(180)
def test_llm_measures_every_start_with_and_without_a_state(tmp_path: Path) -> None:
    body = run(tmp_path, "llm", "--random", "tiny", "--rounds", "1", "--commands", "4", "8", "--threads", "1")
    found = samples(body)
    for subject in ("famulus, 4 commands", "famulus, 8 commands"):
        assert len(found[subject, _COLD]) == len(found[subject, _DISK]) == 1
        assert len(found[subject, _WARM]) == 2
    assert len(found["random hybrid tiny", "load, file not in the page cache"]) == 1
    server = found["llama_cpp.server, 4 commands", _WARM]
    if why := peer_missing():
        assert server == []
        assert why in " ".join(body["notes"])
    else:
        assert len(server) == 2
    assert list(body["machine"]["models"]) == ["random hybrid tiny"]


@pytest.fixture
def jetson(tmp_path: Path) -> Path:
    """A root whose one sensor says 9 W at all times."""
    device = tmp_path / "root/sys/class/hwmon/hwmon2"
    device.mkdir(parents=True)
    files = {"name": "ina3221", "in1_label": "VDD_IN", "in1_input": 5000, "curr1_input": 1800, "update_interval": 20}
    for name, text in files.items():
        (device / name).write_text(f"{text}\n")
    return tmp_path / "root"


@pytest.mark.timeout(180)
def test_llm_tells_joules_per_token_and_command_above_idle(
    tmp_path: Path, jetson: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("famulus.bench.llm._IDLE_S", 0.4)
    small = ("llm", "--random", "tiny", "--rounds", "1", "--commands", "4", "--no-peer", "--threads", "1")
    found = samples(run(tmp_path, *small, "--power", "--power-root", str(jetson)))
    source = "ina3221 VDD_IN (the board's input)"
    assert found[source, "model loaded, idle"] == [pytest.approx(9.0, rel=0.01)]
    assert found[source, "per command by text, net of idle"] == [pytest.approx(0.0, abs=0.01)]
    assert len(found[source, "per generated token, net of idle"]) <= 1  # a tiny model may be done between two readings


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_idle_tells_memory_processor_and_watts(tmp_path: Path, jetson: Path) -> None:
    small = ("idle", "--audio", "fifo", "--seconds", "2", "--warm-up", "0.5", "--starts", "1")
    found = samples(run(tmp_path, *small, "--power", "--power-root", str(jetson)))
    assert found["daemon", "memory, RSS"][0] > 10
    assert len(found["daemon", "time to ready"]) == 1
    source = "ina3221 VDD_IN (the board's input)"
    assert found[source, "machine idle"] == [pytest.approx(9.0, rel=0.01)] * 5
    assert found[source, "listening, net of the idle machine"] == [pytest.approx(0.0, abs=0.1)] * 5


@pytest.mark.e2e
@pytest.mark.models
@pytest.mark.timeout(180)
def test_turns_tell_joules_per_command(tmp_path: Path, jetson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("famulus.bench.turns._LISTEN_S", 0.4)
    audio = Path(__file__).parents[1] / "data" / "audio"
    small = ("turns", "--recordings", str(audio), "--only", "wake_light_on", "--audio", "fifo")
    found = samples(run(tmp_path, *small, "--power", "--power-root", str(jetson)))
    assert len(found["turn", "end of speech to outcome"]) == 1
    source = "ina3221 VDD_IN (the board's input)"
    assert found[source, "per command by voice, net of listening"] == [pytest.approx(0.0, abs=0.5)]


@pytest.mark.timeout(120)
def test_cancel_measures_both_phases_and_kills_nobody(tmp_path: Path) -> None:
    body = run(tmp_path, "cancel", "--random", "tiny", "--rounds", "3", "--commands", "64", "--context", "4096")
    assert body["results"]["workers_killed"] == 0
    assert {m["subject"] for m in body["measurements"]} == {"prefill", "decode"}


@pytest.mark.timeout(120)
def test_bus_measures_one_client_and_several(tmp_path: Path) -> None:
    body = run(tmp_path, "bus", "--clients", "1", "2", "--calls", "8", "--rounds", "2")
    found = samples(body)
    assert {subject for subject, _ in found} == {"1 client", "2 clients"}
    assert all(len(taken) == 2 and min(taken) > 0 for taken in found.values())


@pytest.mark.timeout(120)
def test_wake_judges_the_bundled_recordings(tmp_path: Path) -> None:
    body = run(tmp_path, "wake", "--seconds", "0.4")
    heard = body["results"]["judged"]["micro"]
    assert heard["wake_light_on"]["hits"] == ["hey_jarvis"]
    assert heard["no_wake_chatter"]["hits"] == []
    assert len(samples(body)["no engine, silence", "processor"]) == 8


def test_a_model_that_is_no_language_model_or_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cancel", "--model", "moonshine-tiny-en"]) == 1
    assert "is a model for asr" in capsys.readouterr().err
    assert main(["cancel", "--model", str(tmp_path / "none.gguf")]) == 1
    assert "is missing" in capsys.readouterr().err
