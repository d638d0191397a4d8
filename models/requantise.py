"""``python -m famulus.models.requantise SOURCE TARGET THREADS``: a process of its own for llama.cpp's quantiser.

It may crash, or take all memory there is, and its caller lives on. Prints ``done total`` (tensors) line by line.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys

_NICE = 10  # a daemon that listens on the same board comes first

_ERROR = 4  # ggml's level, which the binding does not name


def main(source: str, target: str, threads: str) -> int:
    """Requantise to Q4_0; returns 0, or 1 with the reason on stderr."""
    import llama_cpp

    os.nice(_NICE)

    @llama_cpp.llama_log_callback  # type: ignore[untyped-decorator,unused-ignore]
    def log(level: int, text: bytes, _: object) -> None:
        try:
            if found := re.match(rb"\[\s*(\d+)/\s*(\d+)\]", text):
                sys.stdout.write(f"{int(found[1])} {int(found[2])}\n")
                sys.stdout.flush()
            elif level == _ERROR:
                sys.stderr.write(text.decode(errors="replace"))
        except OSError:
            os._exit(1)  # whoever asked is gone

    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    options.allow_requantize = True
    options.nthread = int(threads)
    return int(llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), options) != 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
