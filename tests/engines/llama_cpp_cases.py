"""The llama.cpp engine: prefixes are read once, grammars hold, and a cancel stops its own request only.

Run by test_llama_cpp.py in a process of its own. The tiny models have random weights (plain attention, and a hybrid
with recurrent layers): what they say is noise, but the machinery under it is the real one.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from famulus.core.errors import Busy, Cancelled, Failed, InvalidArguments, ModelUnavailable
from famulus.engines.llama_cpp import LlamaCpp
from famulus.engines.protocols import Completion, Generation

_MODELS = Path(__file__).parents[1] / "data" / "models"
_PREFIX = "<|im_start|>system\nAnswer in few words. " + "The lamp, the curtain and the radio can be used. " * 6
_PREFIX += "<|im_end|>\n"
_SUFFIX = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
_JSON_GRAMMAR = r"""
root ::= "[" call ("," call)? "]"
call ::= "{\"method\":\"" ("lamp_on" | "say") "\",\"args\":{" (string ":" value)? "}}"
value ::= string | "0" | [1-9][0-9]{0,2}
string ::= "\"" ([^"\\\x00-\x1F] | "\\n"){0,12} "\""
"""

Make = Callable[..., LlamaCpp]


@pytest.fixture(params=["plain", "hybrid", pytest.param("smollm2", marks=pytest.mark.models)])
def model(request: pytest.FixtureRequest, model_files: Callable[[str], dict[str, str]]) -> str:
    if request.param == "smollm2":
        return model_files("smollm2-135m")["model"]
    return str(_MODELS / f"tiny-{request.param}.gguf")


@pytest.fixture
def tiny() -> str:
    return str(_MODELS / "tiny-hybrid.gguf")


@pytest.fixture
def make() -> Iterator[Make]:
    engines: list[LlamaCpp] = []

    def load(model: str, *, context: int = 1024, state_dir: Path | str = "", **options: int) -> LlamaCpp:
        engine = LlamaCpp(model=model, threads=1, context=context, state_dir=str(state_dir), **options)
        engines.append(engine)
        return engine

    yield load
    for engine in engines:
        engine.close()


def ask(engine: LlamaCpp, job, suffix: str = _SUFFIX, *, prefix: str = _PREFIX, **options) -> Completion:
    *pieces, end = engine.generate(Generation(prefix, suffix, **{"max_tokens": 16, **options}), job)
    assert isinstance(end, Completion)
    assert "".join(str(piece) for piece in pieces) == end.text
    return end


# The prefix


def test_a_prefix_is_read_once(make: Make, model: str, job) -> None:
    engine = make(model)
    first, second = ask(engine, job), ask(engine, job)
    assert (first.prefix_source, second.prefix_source) == ("decoded", "kept")
    assert second.prompt_tokens < 80 < first.prompt_tokens
    assert first.text == second.text
    assert 0 < second.first_token_s <= second.total_s


def test_a_prefix_comes_back_from_disk_and_answers_the_same(make: Make, model: str, job, tmp_path: Path) -> None:
    before = make(model, state_dir=tmp_path)
    first = ask(before, job)
    before.close()
    after = make(model, state_dir=tmp_path)
    restored = ask(after, job)
    assert restored.prefix_source == "disk"
    assert restored.text == first.text
    assert restored.prompt_tokens == ask(after, job).prompt_tokens


def test_other_requests_in_between_leave_no_trace(make: Make, model: str, job) -> None:
    engine = make(model)
    first = ask(engine, job)
    ask(engine, job, "<|im_start|>user\nSing a song about the sea.<|im_end|>\n<|im_start|>assistant\n", max_tokens=30)
    assert ask(engine, job).text == first.text


def test_back_on_an_earlier_prefix_it_answers_the_same(make: Make, model: str, job) -> None:
    engine = make(model)
    first = ask(engine, job)
    engine.prepare("<|im_start|>system\nTalk about the sea at length.<|im_end|>\n", job)
    again = ask(engine, job)
    assert (again.prefix_source, again.text) == ("decoded", first.text)


def test_prepare_makes_the_prefix_ready(make: Make, tiny: str, job, tmp_path: Path) -> None:
    engine = make(tiny, state_dir=tmp_path)
    assert engine.prepare(_PREFIX, job) == "decoded"
    assert engine.prepare(_PREFIX, job) == "kept"
    assert ask(engine, job).prefix_source == "kept"
    assert engine.prepare(_PREFIX + "More.\n", job) == "decoded"
    assert engine.prepare(_PREFIX, job) == "disk"


def test_no_prefix_at_all_works(make: Make, tiny: str, job) -> None:
    engine = make(tiny)
    assert ask(engine, job, prefix="").text
    ask(engine, job)
    assert ask(engine, job, prefix="").text


@pytest.mark.parametrize("damage", ["truncated", "empty", "changed"])
def test_a_damaged_state_file_does_no_harm(make: Make, tiny: str, job, tmp_path: Path, damage: str) -> None:
    engine = make(tiny, state_dir=tmp_path)
    first = ask(engine, job)
    engine.close()
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes({"truncated": data[: len(data) // 2], "empty": b"", "changed": data}[damage])
    again = ask(make(tiny, state_dir=tmp_path), job)
    assert again.prefix_source == "decoded"
    assert again.text == first.text


def test_a_state_of_other_weights_or_another_context_is_not_used(make: Make, job, tmp_path: Path) -> None:
    make(str(_MODELS / "tiny-plain.gguf"), state_dir=tmp_path).prepare(_PREFIX, job)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes((_MODELS / "tiny-plain.gguf").read_bytes())
    os.utime(copy, (1, 1))
    assert make(str(copy), state_dir=tmp_path).prepare(_PREFIX, job) == "decoded"
    assert make(str(_MODELS / "tiny-plain.gguf"), state_dir=tmp_path, context=2048).prepare(_PREFIX, job) == "decoded"


def test_states_on_disk_stay_within_their_limit(make: Make, tiny: str, job, tmp_path: Path) -> None:
    engine = make(tiny, state_dir=tmp_path, state_limit_bytes=400_000)
    for number in range(8):
        engine.prepare(f"{_PREFIX}{number}\n", job)
    engine.close()
    files = list(tmp_path.iterdir())
    assert files
    assert sum(path.stat().st_size for path in files) <= 400_000


def test_a_state_folder_that_cannot_be_written_does_no_harm(make: Make, tiny: str, job, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    engine = make(tiny, state_dir=blocked)
    assert [ask(engine, job).prefix_source for _ in range(2)] == ["decoded", "kept"]


# Answers


@pytest.mark.models
def test_a_real_model_answers_and_stops_by_itself(make: Make, model_files, job) -> None:
    end = ask(make(model_files("smollm2-135m")["model"]), job, max_tokens=40)
    assert "Paris" in end.text
    assert end.finish == "stop"
    assert "<|" not in end.text


@pytest.mark.models
def test_a_stop_string_is_never_shown(make: Make, model_files, job) -> None:
    engine = make(model_files("smollm2-135m")["model"])
    whole = ask(engine, job, max_tokens=40).text
    end = ask(engine, job, max_tokens=40, stop=("nce is",))
    assert end.text == whole.split("nce is")[0]
    assert end.finish == "stop"


def test_max_tokens_ends_with_length(make: Make, tiny: str, job) -> None:
    end = ask(make(tiny), job, max_tokens=5)
    assert (end.finish, end.tokens) == ("length", 5)


def test_a_full_context_ends_with_length(make: Make, tiny: str, job) -> None:
    end = ask(make(tiny, context=512), job, max_tokens=100_000, grammar="root ::= [a-z] root")
    assert end.finish == "length"
    assert end.tokens + end.prompt_tokens == 512


def test_temperature_is_repeatable_by_seed(make: Make, tiny: str, job) -> None:
    engine = make(tiny)
    texts = [ask(engine, job, temperature=1.5, seed=seed).text for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


# Grammars


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_under_a_grammar_valid_json_always_comes_out(make: Make, model: str, job, temperature: float) -> None:
    engine = make(model)
    for seed in range(6):
        suffix = _SUFFIX.replace("France", f"country {seed}")
        end = ask(engine, job, suffix, grammar=_JSON_GRAMMAR, max_tokens=160, temperature=temperature, seed=seed)
        assert end.finish == "stop"
        assert [set(call) for call in json.loads(end.text)] in ([{"method", "args"}], [{"method", "args"}] * 2)


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "a',
        'other ::= "a"',
        "root ::= missing",
        'root ::= root "a"',
        'root ::= ("a"{0,2000}){0,2000}',
        "%%%",
        " ",
        'root ::= "a\0b"',
        'root ::= "\ud800',
        "root ::= " + "(" * 10_000,
    ],
)
def test_an_invalid_grammar_is_a_typed_error_and_costs_no_prefill(make: Make, tiny: str, job, grammar: str) -> None:
    engine = make(tiny)
    with pytest.raises(InvalidArguments, match="GBNF"):
        ask(engine, job, grammar=grammar)
    assert ask(engine, job).prefix_source == "decoded"


def test_a_grammar_that_is_used_up_ends_the_answer(make: Make, model: str, job) -> None:
    end = ask(make(model), job, grammar='root ::= "yes"')
    assert (end.text, end.finish) == ("yes", "stop")


# Limits


def test_a_prompt_that_does_not_fit_is_refused_with_numbers(make: Make, tiny: str, job) -> None:
    engine = make(tiny, context=512)
    assert ask(engine, job).prefix_source == "decoded"
    with pytest.raises(InvalidArguments, match=r"\d+ \+ 1 tokens .* 511"):
        engine.prepare("word " * 600, job)
    with pytest.raises(InvalidArguments, match="does not fit"):
        ask(engine, job, "word " * 600)
    assert ask(engine, job).prefix_source == "kept"


def test_empty_requests_are_refused(make: Make, tiny: str, job) -> None:
    engine = make(tiny)
    with pytest.raises(InvalidArguments, match="suffix"):
        ask(engine, job, "")
    with pytest.raises(InvalidArguments, match="token"):
        ask(engine, job, max_tokens=0)


def test_a_second_request_at_the_same_time_is_refused(make: Make, tiny: str, job, make_job) -> None:
    engine = make(tiny)
    running = engine.generate(Generation(_PREFIX, _SUFFIX), job)
    next(running)
    with pytest.raises(Busy):
        engine.prepare(_PREFIX, make_job())
    running.close()
    assert ask(engine, make_job()).prefix_source == "kept"


def test_a_finished_answer_frees_the_model_before_its_iterator_ends(make: Make, tiny: str, job) -> None:
    engine = make(tiny)
    running = engine.generate(Generation(_PREFIX, _SUFFIX, max_tokens=3), job)
    while not isinstance(next(running), Completion):
        pass
    assert ask(engine, job).text


# Cancel


def test_a_cancel_in_the_middle_of_a_prefix_keeps_the_old_one(make: Make, model: str, job, make_job) -> None:
    engine = make(model, context=4096)
    first = ask(engine, job)
    long = make_job()
    timer = threading.Timer(0.05, long.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        for number in range(500):
            engine.prepare(f"{number}\n" + "The sea is wide and blue. " * 140, long)
    timer.join()
    again = ask(engine, make_job())
    assert again.prefix_source == "kept"
    assert again.text == first.text


def test_a_cancel_while_answering_keeps_the_prefix(make: Make, model: str, job, make_job) -> None:
    engine = make(model)
    first = ask(engine, job)
    running = make_job()
    stream = engine.generate(Generation(_PREFIX, _SUFFIX, max_tokens=500, grammar='root ::= "a" root'), running)
    next(stream)
    running.cancel()
    with pytest.raises(Cancelled):
        for _ in stream:
            pass
    again = ask(engine, make_job())
    assert (again.prefix_source, again.text) == ("kept", first.text)


@pytest.mark.models
def test_a_cancel_reaches_a_computation_that_is_under_way(make: Make, model_files, job, make_job) -> None:
    engine = make(model_files("smollm2-135m")["model"], context=4096)
    threading.Timer(0.3, job.cancel).start()
    with pytest.raises(Cancelled):
        engine.prepare("The sea is wide and blue. " * 400, job)  # many seconds of work
    assert ask(engine, make_job(), max_tokens=3).text


def test_a_job_cancelled_before_it_begins_does_nothing(make: Make, tiny: str, job, make_job) -> None:
    engine = make(tiny)
    job.cancel()
    with pytest.raises(Cancelled):
        engine.prepare(_PREFIX, job)
    with pytest.raises(Cancelled):
        ask(engine, job)
    assert ask(engine, make_job()).prefix_source == "decoded"


def test_a_late_cancel_never_hits_the_next_request(make: Make, model: str, job, make_job) -> None:
    engine = make(model)
    first = ask(engine, job)
    following = make_job()
    stream = engine.generate(Generation(_PREFIX, _SUFFIX, max_tokens=16), following)
    next(stream)
    job.cancel()
    *_, end = stream
    assert isinstance(end, Completion)
    assert end.text == first.text


# Files


def test_missing_and_damaged_models_are_typed_errors(make: Make, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"gone\.gguf is missing"):
        make(str(tmp_path / "gone.gguf"))
    content = Path(tiny).read_bytes()
    for data in (b"", b"GGUF", b"junk" * 1000, content[:2000], content[: len(content) // 2]):
        bad = tmp_path / "bad.gguf"
        bad.write_bytes(data)
        with pytest.raises(ModelUnavailable, match=r"bad\.gguf is damaged"):
            make(str(bad))


def test_a_closed_model_says_so(make: Make, tiny: str, job) -> None:
    engine = make(tiny)
    engine.close()
    engine.close()
    with pytest.raises(Failed, match="closed"):
        ask(engine, job)


def test_llama_cpp_is_silent(make: Make, tiny: str, job, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ask(make(tiny), job)
    with pytest.raises(ModelUnavailable):
        (tmp_path / "bad.gguf").write_bytes(b"junk")
        make(str(tmp_path / "bad.gguf"))
    assert capfd.readouterr() == ("", "")
