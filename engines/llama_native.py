"""One GGUF model in memory with a prefix and a run: the few llama.cpp calls the engine needs, made safe to call."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import Cancelled, Failed, ModelUnavailable
from .llama_state import Buffer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LOG = logging.getLogger(__name__)

_RUN, _PREFIX = 0, 1  # sequences of the context
_BATCH = 256
_ABORTED = 2  # llama_decode's answer to the abort callback
_LEVEL_ERROR = 4  # GGML_LOG_LEVEL_ERROR
_IDENTITY_BYTES = 1 << 20

_log_callback: Any = None  # llama.cpp keeps its address for the life of the process


class AbortFlag:
    """What llama.cpp polls while it computes. Each job has one of its own, so a late cancel hits nobody else."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(2)

    def set(self) -> None:
        """Stop the computation that runs under this flag; callable from any thread."""
        self.buffer[0] = b"\1"


class LlamaModel:
    """A model and its context. One thread at a time may use it; only :meth:`AbortFlag.set` is for others.

    The prefix lives on a sequence of its own and is copied for each run, which costs microseconds: attention cells are
    shared in the unified cache, recurrent ones copied on write. That one way serves plain, recurrent and hybrid
    models, whose state cannot be rolled back. ``context`` is in tokens, prefix, suffix and answer together.
    """

    def __init__(self, path: str, *, threads: int, context: int) -> None:
        if not Path(path).is_file():
            raise ModelUnavailable(f"The language model {path} is missing; get it with `famulus models pull`.")
        try:
            import llama_cpp
        except (ImportError, OSError, RuntimeError) as error:
            _LOG.debug("llama.cpp cannot be loaded: %s", error)
            raise ModelUnavailable(
                "llama.cpp cannot be loaded; install llama-cpp-python again, or, where Silero VAD is in use, "
                "give the language model a process of its own: each brings a libggml that shuts out the other's."
            ) from error
        self._lib: Any = llama_cpp
        _quieten(llama_cpp)
        llama_cpp.llama_backend_init()
        self._ctx: Any = None
        self._batch: Any = None
        options = llama_cpp.llama_model_default_params()
        options.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # mmap would hold repacked weights twice
        # llama.cpp's AMX kernels crash the process where the compiler dropped their tile setup as dead
        # stores (ggml-org/llama.cpp#20824, #26954); without extra buffer types they are never chosen.
        options.use_extra_bufts = b"AMX_INT8 = 1" not in llama_cpp.llama_print_system_info()
        self._model: Any = llama_cpp.llama_model_load_from_file(os.fsencode(path), options)
        if not self._model:
            raise ModelUnavailable(f"The language model {path} is damaged or of an unknown kind; pull it again.")
        self.vocab: Any = llama_cpp.llama_model_get_vocab(self._model)
        self.vocab_size: int = llama_cpp.llama_vocab_n_tokens(self.vocab)
        trained = llama_cpp.llama_model_n_ctx_train(self._model)
        if context > trained > 0:
            _LOG.info("the model was made for %d tokens of context, fewer than the %d asked for", trained, context)
            context = trained
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = _BATCH
        params.n_seq_max, params.kv_unified = 2, True
        params.n_outputs_max = 2  # a tenth of the compute buffer that one row of logits per batch token would take
        params.n_threads = params.n_threads_batch = threads
        # On a CPU it costs: with it SmolLM2's first token takes 2.3 times as long, and it writes a quarter slower.
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        self._ctx = llama_cpp.llama_init_from_model(self._model, params)
        self._memory: Any = llama_cpp.llama_get_memory(self._ctx) if self._ctx else None
        if not self._memory:
            self.close()
            raise ModelUnavailable(f"{path} gives no context of {context} tokens; set a smaller one or another model.")
        self.context_size: int = llama_cpp.llama_n_ctx(self._ctx)
        self._batch = llama_cpp.llama_batch_init(_BATCH, 0, 1)
        # strlen(flag) is 0 until the flag is set: a callback that needs no GIL, and none of Python's threads
        self._strlen = ctypes.CDLL(None).strlen
        self._abort: Any = ctypes.cast(self._strlen, llama_cpp.ggml_abort_callback)
        self.identity: tuple[object, ...] = (
            *_file_identity(Path(path)),
            llama_cpp.__version__,
            self.context_size,
            _BATCH,
            params.type_k,
            params.type_v,
            params.flash_attn_type,
            params.kv_unified,
        )
        self.use_flag(AbortFlag())

    def close(self) -> None:
        """Free the model; later calls raise ``Failed``."""
        if self._ctx:
            if self._batch is not None:
                self._lib.llama_batch_free(self._batch)
            self._lib.llama_free(self._ctx)
        if self._model:
            self._lib.llama_model_free(self._model)
        self._ctx = self._model = self._memory = None

    def check_open(self) -> None:
        """Raise ``Failed`` once the model is closed: llama.cpp itself would crash."""
        if not self._ctx:
            raise Failed("The language model is closed; load it again.")

    def use_flag(self, flag: AbortFlag) -> None:
        """Let ``flag``, and no earlier one, stop what is computed from now on."""
        self.check_open()
        self._flag = flag
        self._lib.llama_set_abort_callback(self._ctx, self._abort, ctypes.addressof(flag.buffer))

    # Text

    def tokenize(self, text: str) -> list[int]:
        """Tokens of ``text``, control tokens such as ``<|im_end|>`` among them."""
        self.check_open()
        data = text.encode("utf-8", "replace")
        tokens = (self._lib.llama_token * (len(data) + 8))()
        count = self._lib.llama_tokenize(self.vocab, data, len(data), tokens, len(tokens), False, True)
        if count < 0:
            raise Failed("The prompt cannot be split into tokens; use another model.")
        return list(tokens[:count])

    def piece(self, token: int) -> bytes:
        """The bytes of one token, ``b""`` for a control token."""
        buffer = ctypes.create_string_buffer(64)
        size = self._lib.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
        if size < 0:
            buffer = ctypes.create_string_buffer(-size)
            size = self._lib.llama_token_to_piece(self.vocab, token, buffer, len(buffer), 0, False)
        return buffer.raw[: max(size, 0)]

    def is_end(self, token: int) -> bool:
        """Whether the model ends its answer with this token."""
        return bool(self._lib.llama_vocab_is_eog(self.vocab, token))

    # Computing

    def start_run(self) -> None:
        """Begin a run right after the prefix."""
        self.check_open()
        # In this order: copying only adds cells, and a hybrid model would silently go wrong.
        self._lib.llama_memory_seq_rm(self._memory, _RUN, -1, -1)
        self._lib.llama_memory_seq_cp(self._memory, _PREFIX, _RUN, -1, -1)

    def read_prefix(self, tokens: Sequence[int]) -> None:
        """Replace everything by this prefix. After an error nothing is left."""
        self.clear()
        try:
            self._decode(tokens, 0, _PREFIX, logits=False)
        except BaseException:
            self.clear()
            raise

    def read(self, tokens: Sequence[int], position: int) -> None:
        """Continue the run at ``position`` and compute the logits after the last token."""
        self._decode(tokens, position, _RUN, logits=True)

    def _decode(self, tokens: Sequence[int], position: int, sequence: int, *, logits: bool) -> None:
        self.check_open()
        batch = self._batch
        for start in range(0, len(tokens), _BATCH):
            part = tokens[start : start + _BATCH]
            for at, token in enumerate(part):
                batch.token[at] = token
                batch.pos[at] = position + start + at
                batch.n_seq_id[at] = 1
                batch.seq_id[at][0] = sequence
                batch.logits[at] = logits and start + at + 1 == len(tokens)
            batch.n_tokens = len(part)
            result = self._lib.llama_decode(self._ctx, batch)  # gives up the GIL
            if result == _ABORTED:
                raise Cancelled("The generation was cancelled.")
            if result:
                raise Failed(
                    f"llama.cpp could not compute (code {result}); set a larger context or load the model again."
                )

    def logits(self) -> npt.NDArray[np.float32]:
        """A view of the logits after the last :meth:`read`, valid until the next one."""
        import numpy as np

        self.check_open()
        pointer = self._lib.llama_get_logits_ith(self._ctx, -1)
        if not pointer:
            raise Failed("llama.cpp gave no logits; load the model again.")
        return np.ctypeslib.as_array(pointer, shape=(self.vocab_size,))

    # State

    def clear(self) -> None:
        """Forget prefix and run."""
        self.check_open()
        self._lib.llama_memory_clear(self._memory, False)  # the cells only: wiping a large cache takes 50 ms

    def prefix_state(self) -> bytearray:
        """A snapshot of the prefix, milliseconds to take."""
        self.check_open()
        size = self._lib.llama_state_seq_get_size(self._ctx, _PREFIX)
        state = bytearray(size)
        written = self._lib.llama_state_seq_get_data(self._ctx, _as_array(state), size, _PREFIX)
        if not 0 < written <= size:
            raise Failed("llama.cpp could not save the prompt's state; load the model again.")
        del state[written:]
        return state

    def restore_prefix(self, state: Buffer) -> bool:
        """Replace everything by a snapshot; ``False``, with nothing left, if llama.cpp refuses it."""
        self.clear()
        content = state if isinstance(state, bytearray) else bytearray(state)
        if self._lib.llama_state_seq_set_data(self._ctx, _as_array(content), len(content), _PREFIX) == len(content):
            return True
        self.clear()
        return False


def _as_array(data: bytearray) -> Any:
    return (ctypes.c_uint8 * len(data)).from_buffer(data)


def _file_identity(path: Path) -> tuple[object, ...]:
    """Tells one model file from another without reading gigabytes: size, time of change, and its first megabyte."""
    stat = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_IDENTITY_BYTES)).hexdigest()
    return stat.st_size, stat.st_mtime_ns, head


def _quieten(llama_cpp: Any) -> None:
    """llama.cpp writes pages to stderr: keep its errors, at DEBUG, and drop the rest."""
    global _log_callback  # noqa: PLW0603
    if _log_callback is not None:
        return

    def log(level: int, text: bytes, _data: object) -> None:
        if level == _LEVEL_ERROR:
            _LOG.debug("llama.cpp: %s", text.decode(errors="replace").rstrip())

    _log_callback = llama_cpp.llama_log_callback(log)
    llama_cpp.llama_log_set(_log_callback, None)
