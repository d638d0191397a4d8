"""GGUF files: their heads, making them faster, and using one by its path."""

from __future__ import annotations

import asyncio
import signal
import struct
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import Failed, InvalidArguments, ModelUnavailable, NotFound
from famulus.daemon.models import ModelSlots, make_pool, memory_needs, missing_models
from famulus.daemon.settings import Settings
from famulus.engines.protocols import Completion, Generation
from famulus.models.catalogue import Catalogue
from famulus.models.gguf import read_gguf
from famulus.models.optimise import optimise
from famulus.models.own import find_entry, own_entry
from famulus.models.store import Store
from web_rig import leftovers, until

TINY = Path(__file__).parents[1] / "data/models/tiny-plain.gguf"
HYBRID = TINY.with_name("tiny-hybrid.gguf")


@pytest.mark.parametrize(("path", "architecture"), [(TINY, "llama"), (HYBRID, "qwen35")])
def test_the_head_of_a_gguf_file_tells_what_it_is(path: Path, architecture: str) -> None:
    gguf = read_gguf(path)
    assert (gguf.architecture, gguf.form) == (architecture, "F32")
    assert sum(tensor.size for tensor in gguf.tensors) <= path.stat().st_size
    assert gguf.parameters * 4 <= path.stat().st_size


def test_no_cut_of_a_gguf_file_passes_for_a_whole_one(tmp_path: Path) -> None:
    whole = TINY.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in [0, 3, 4, 23, 24, 100, 1000, 5000, len(whole) // 2, len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(InvalidArguments, match=r"is not a whole GGUF file|is empty"):
            read_gguf(cut)


def test_a_head_that_promises_the_world_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "vast.gguf"
    for head in (
        struct.pack("<IQQ", 3, 1 << 60, 1),
        struct.pack("<IQQQ", 3, 1, 1, 1 << 62),
        struct.pack("<IQQ", 9, 1, 1),
    ):
        path.write_bytes(b"GGUF" + head + bytes(64))
        with pytest.raises(InvalidArguments, match="is not a whole GGUF file"):
            read_gguf(path)


def test_a_slow_form_is_made_q4_0_and_found_like_any_model(store: Store, recorder: Any) -> None:
    made, new = optimise(own_entry(str(HYBRID)), store, recorder)
    assert (made.id, new) == ("tiny-hybrid-q4_0", True)
    assert made.size < HYBRID.stat().st_size / 2
    assert leftovers(store, made) == ["tiny-hybrid.Q4_0.gguf"]
    assert recorder.last > 0
    found = find_entry("tiny-hybrid-q4_0", Catalogue.load(), store)
    assert found == made
    assert store.verify(found) == {"model": "present"}
    assert read_gguf(store.files(found)["model"]).architecture == "qwen35"
    again, new = optimise(own_entry(str(HYBRID)), store)
    assert (again, new) == (made, False)


def test_a_changed_original_is_made_again(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "mine.F32.gguf"
    source.write_bytes(TINY.read_bytes())
    first, _ = optimise(own_entry(str(source)), store)
    source.write_bytes(HYBRID.read_bytes())
    second, new = optimise(own_entry(str(source)), store)
    assert (first.id, second.id, new) == ("mine-q4_0", "mine-q4_0", True)
    assert store.verify(second) == {"model": "present"}


def test_what_would_not_help_is_refused(store: Store) -> None:
    made, _ = optimise(own_entry(str(HYBRID)), store)
    if read_gguf(store.files(made)["model"]).form == "Q4_0":
        with pytest.raises(InvalidArguments, match="is in that form already"):
            optimise(made, store)
    with pytest.raises(InvalidArguments, match="is not a GGUF model"):
        optimise(Catalogue.load().entry("micro"), store)


def test_a_model_that_is_not_here_says_what_to_run(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="famulus models pull smollm2-135m"):
        optimise(Catalogue.load().entry("smollm2-135m"), store)
    with pytest.raises(ModelUnavailable, match=r"put a file at .*gone\.gguf"):
        optimise(own_entry(str(tmp_path / "gone.gguf")), store)


def test_without_room_nothing_is_begun(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 1000))
    with pytest.raises(Failed, match=r"Making tiny-plain-q4_0 needs .* free"):
        optimise(own_entry(str(TINY)), store)


def test_what_llama_cpp_says_is_passed_on(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(TINY.read_bytes().replace(b"llama.block_count", b"llama.block_cound"))
    with pytest.raises(Failed, match=r"llama\.cpp says: .*quantize"):
        optimise(own_entry(str(path)), store)
    assert not any(store.root.glob("*/*.gguf"))


def test_an_interrupted_making_leaves_no_process_and_no_file(store: Store, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    slow.chmod(0o755)
    code = (
        "import sys; from pathlib import Path; from famulus.models.optimise import optimise\n"
        "from famulus.models.own import own_entry; from famulus.models.store import Store\n"
        "sys.executable = sys.argv[3]\n"
        "optimise(own_entry(sys.argv[1]), Store(Path(sys.argv[2])))\n"
    )
    command = [sys.executable, "-c", code, str(TINY), str(store.root), str(slow)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        until(lambda: bool(children_of(process.pid)))
        (child,) = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    until(lambda: not Path(f"/proc/{child}").exists())
    assert not any(store.root.glob("*/*.gguf"))
    assert not any(store.root.glob("*/.fetch"))


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("models/mine.gguf", "Write the whole path"),
        ("/models/mine.bin", "needs one of .gguf"),
        ("/models/.hidden.gguf", "hidden"),
    ],
)
def test_a_path_that_cannot_be_is_explained(model: str, told: str) -> None:
    with pytest.raises(InvalidArguments, match=told):
        own_entry(model)


def test_an_unknown_id_is_still_suggested(store: Store) -> None:
    optimise(own_entry(str(TINY)), store)
    with pytest.raises(NotFound, match="did you mean 'tiny-plain-q4_0'"):
        find_entry("tiny-plain-q4", Catalogue.load(), store)


def settings_for(model: str, tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {"llm": {"model": model, "threads": 1, "context": 512}, "storage": {"cache": str(tmp_path / "cache")}}
    )


async def answer(settings: Settings, store: Store) -> str:
    # In a thread, as the daemon builds its parts: it looks for files.
    slot = await asyncio.to_thread(
        lambda: ModelSlots(settings, Catalogue.load(), store, make_pool(settings.memory)).language_model()
    )
    assert slot is not None
    async with slot.lease() as engine:
        request = Generation(prefix="Once upon a time\n", suffix="there was\n", max_tokens=3)
        pieces = [piece async for piece in engine.generate(request, timeout_s=30)]
    await slot.unload()
    assert isinstance(pieces[-1], Completion)
    return pieces[-1].finish


def test_a_language_model_by_its_path_is_present_and_needs_its_size(store: Store, tmp_path: Path) -> None:
    settings = settings_for(str(TINY), tmp_path)
    assert missing_models(settings, Catalogue.load(), store).get(str(TINY)) is None
    assert memory_needs(settings, Catalogue.load())[str(TINY)] > TINY.stat().st_size


async def test_the_daemon_runs_a_language_model_by_its_path(store: Store, tmp_path: Path) -> None:
    assert await answer(settings_for(str(TINY), tmp_path), store) in ("length", "stop")


async def test_the_daemon_runs_what_was_optimised(store: Store, tmp_path: Path) -> None:
    made, _ = await asyncio.to_thread(lambda: optimise(own_entry(str(HYBRID)), store))
    assert await answer(settings_for(made.id, tmp_path), store) in ("length", "stop")


def test_a_path_without_a_file_is_told_at_the_start_and_does_not_stop_it(store: Store, tmp_path: Path) -> None:
    settings = settings_for(str(tmp_path / "gone.gguf"), tmp_path)
    slots = ModelSlots(settings, Catalogue.load(), store, make_pool(settings.memory))
    assert slots.language_model() is not None
    (told,) = [told for model, told in missing_models(settings, Catalogue.load(), store).items() if "gone" in model]
    assert "put a file at" in told
