"""``llama_cpp.server`` as it is, save for one option without which it crashes on processors with AMX.

llama.cpp's AMX kernels crash the process where the compiler dropped their tile setup (ggml-org/llama.cpp#20824), so
there the extra buffer types are switched off, as famulus does for itself: both then run the same kernels.
"""

from __future__ import annotations

from typing import Any


def main() -> None:
    import llama_cpp
    import llama_cpp.llama_cpp as native
    from llama_cpp.server import __main__ as server

    if b"AMX_INT8 = 1" in native.llama_print_system_info():
        default: Any = native.llama_model_default_params

        def without_extra_buffers() -> Any:
            params = default()
            params.use_extra_bufts = False
            return params

        native.llama_model_default_params = llama_cpp.llama_model_default_params = without_extra_buffers
    serve: Any = server.main
    serve()


if __name__ == "__main__":
    main()
