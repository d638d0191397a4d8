"""The real recogniser and language model behind slots, in worker processes and on threads."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import InvalidArguments, ModelUnavailable
from famulus.engines.handles import LanguageModelHandle, RecognizerHandle
from famulus.engines.host import Host
from famulus.engines.inprocess import InProcessHost
from famulus.engines.pool import Pool
from famulus.engines.process import ProcessHost
from famulus.engines.protocols import Completion, Generation
from famulus.engines.slot import Slot

pytestmark = pytest.mark.models

PREFIX = "<|im_start|>system\n" + "You answer in one short sentence. " * 20 + "<|im_end|>\n"
SUFFIX = "<|im_start|>user\nCount to one thousand.<|im_end|>\n<|im_start|>assistant\n"
LONG = Generation(PREFIX, SUFFIX, grammar="root ::= [a-z]{500,}", max_tokens=700)

Transport = Callable[..., Host]


@pytest.fixture(params=[ProcessHost, InProcessHost], ids=["process", "thread"])
def transport(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def asr(pool: Pool, model_files: Any, transport: Transport) -> Slot[RecognizerHandle]:
    files = model_files("moonshine-tiny-en")
    return Slot("asr", RecognizerHandle, lambda: transport("moonshine", files), pool=pool, need_bytes=150 << 20)


@pytest.fixture
def llm(pool: Pool, model_files: Any, tmp_path: Path) -> Slot[LanguageModelHandle]:
    # Never in this process: llama.cpp and the Silero detector of other tests each bring a libggml of their own.
    options = {**model_files("smollm2-135m"), "threads": 1, "context": 1024, "state_dir": str(tmp_path)}
    return Slot("llm", LanguageModelHandle, lambda: ProcessHost("llama_cpp", options), pool=pool, need_bytes=250 << 20)


async def generate(slot: Slot[LanguageModelHandle], **request: Any) -> Completion:
    async with slot.lease(priority="voice") as model:
        pieces = [piece async for piece in model.generate(Generation(PREFIX, SUFFIX, **request), timeout_s=50)]
    completion = pieces.pop()
    assert isinstance(completion, Completion)
    assert "".join(str(piece) for piece in pieces) == completion.text
    return completion


async def test_hears_and_answers_side_by_side(
    asr: Slot[RecognizerHandle], llm: Slot[LanguageModelHandle], recording: Callable[[str], bytes]
) -> None:
    asr.prefetch()
    llm.prefetch()
    async with asr.lease(priority="voice") as recognizer:
        heard = await recognizer.transcribe(recording("wake_timer")[64_000:], timeout_s=20)
    assert "timer" in heard.text.lower()
    assert (await generate(llm, max_tokens=8)).text
    assert (asr.snapshot().loads, llm.snapshot().loads) == (1, 1)


async def test_an_engines_refusals_reach_the_caller(
    asr: Slot[RecognizerHandle], llm: Slot[LanguageModelHandle]
) -> None:
    async with asr.lease() as recognizer:
        with pytest.raises(InvalidArguments, match="too long"):
            await recognizer.transcribe(bytes(31 * 32_000), timeout_s=20)
    with pytest.raises(InvalidArguments):
        await generate(llm, grammar="root ::= (((")
    assert (asr.state, llm.state) == ("ready", "ready")


async def test_a_missing_model_is_told(pool: Pool) -> None:
    options = {"model": "/nowhere/model.gguf", "threads": 1, "context": 512}
    slot = Slot("llm", LanguageModelHandle, lambda: ProcessHost("llama_cpp", options), pool=pool, need_bytes=0)
    with pytest.raises(ModelUnavailable, match=r"/nowhere/model\.gguf"):
        await generate(slot)


async def test_a_cancel_stops_the_generation_and_the_model_stays(llm: Slot[LanguageModelHandle]) -> None:
    async with llm.lease() as model, aclosing(model.generate(LONG, timeout_s=50)) as pieces:
        await anext(pieces)
    again = await asyncio.wait_for(generate(llm, max_tokens=2), 10)
    assert again.prefix_source == "kept"
    assert llm.snapshot().loads == 1


async def test_a_cancel_stops_the_reading_of_a_prompt(llm: Slot[LanguageModelHandle]) -> None:
    async with llm.lease() as model:
        task = asyncio.create_task(model.prepare(PREFIX * 4, timeout_s=50))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await generate(llm, max_tokens=2)
    assert llm.snapshot().loads == 1


async def test_the_prefix_comes_from_disk_after_a_reload(llm: Slot[LanguageModelHandle]) -> None:
    async with llm.lease() as model:
        assert await model.prepare(PREFIX, timeout_s=50) == "decoded"
    await llm.unload()
    assert (await generate(llm, max_tokens=2)).prefix_source == "disk"


@pytest.fixture
def worker_llm(pool: Pool, model_files: Any) -> Slot[LanguageModelHandle]:
    options = {**model_files("smollm2-135m"), "threads": 1, "context": 1024}
    return Slot("llm", LanguageModelHandle, lambda: ProcessHost("llama_cpp", options), pool=pool, need_bytes=0)


async def test_kill_9_during_a_generation_costs_one_request(worker_llm: Slot[LanguageModelHandle]) -> None:
    with pytest.raises(ModelUnavailable, match="SIGKILL"):
        async with worker_llm.lease() as model:
            async for _ in model.generate(LONG, timeout_s=50):
                os.kill(worker_llm.snapshot().pid or 0, signal.SIGKILL)
    assert (await generate(worker_llm, max_tokens=2)).tokens == 2
    assert worker_llm.snapshot().loads == 2


async def test_the_measured_need_counts_the_whole_model(worker_llm: Slot[LanguageModelHandle]) -> None:
    await generate(worker_llm, max_tokens=2)
    assert 100 << 20 < worker_llm.need_bytes < 700 << 20
