"""Runs llama_cpp_cases.py in a process of its own.

llama.cpp and Silero VAD each bring a `libggml.so.0`, and one process can load only one of them: a language model
belongs in a worker process, and so do these tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_CASES = Path(__file__).with_name("llama_cpp_cases.py")
_TINY = Path(__file__).parents[1] / "data" / "models" / "tiny-plain.gguf"


def run(marks: str, timeout_s: float) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, str(_CASES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(150)
def test_the_machinery_holds_on_tiny_models() -> None:
    run("not models", timeout_s=140)


@pytest.mark.models
@pytest.mark.timeout(300)
def test_the_machinery_holds_on_the_embedded_model() -> None:
    run("models", timeout_s=290)


@pytest.mark.parametrize(("first", "second"), [("SILERO", "LLAMA"), ("LLAMA", "SILERO")])
def test_beside_the_other_library_each_engine_is_refused_with_the_reason(first: str, second: str) -> None:
    load = {"SILERO": "SileroDetector()", "LLAMA": f"LlamaCpp(model={str(_TINY)!r}, threads=1, context=512)"}
    program = f"""
from famulus.core.errors import ModelUnavailable
from famulus.engines.llama_cpp import LlamaCpp
from famulus.engines.silero import SileroDetector
kept = {load[first]}
try:
    {load[second]}
except ModelUnavailable as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert "process of its own" in done.stdout
