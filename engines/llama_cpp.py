"""The language model on llama.cpp: one prompt prefix kept ready, short suffixes answered from it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..core.errors import Busy, Cancelled, InvalidArguments
from .llama_native import AbortFlag, LlamaModel
from .llama_sampler import LlamaSampler
from .llama_state import StateStore, state_key
from .protocols import Completion, Generation, Job
from .text_stream import TextStream

_LOG = logging.getLogger(__name__)

_SAVE_WAIT_S = 10.0


class LlamaCpp:
    """The :class:`~famulus.engines.protocols.LanguageModel` for GGUF files: plain, recurrent and hybrid models.

    ``threads`` is best one below the number of cores; ``context`` is the room in tokens for prefix, suffix and answer;
    ``state_dir`` keeps prefix states over restarts, at most ``state_limit_bytes`` of them (``""``: in memory only).

    Prefix and suffix are text in the model's own chat template, and control tokens in them count. So whoever renders
    a template must break those in a person's words: a space after each ``<`` does it for every vocabulary that writes
    them as ``<…>`` (ChatML, Qwen, Llama, Gemma; SmolLM2 also knows ``<repo_name>`` and the like, so ``<|`` alone is
    not enough), and after each ``[`` for Mistral's. The two texts are split into tokens apart from each other: part
    them after a control token or a line's end.

    One request at a time: a second one is refused with ``Busy``. A cancel takes effect within milliseconds.
    """

    def __init__(
        self, *, model: str, threads: int, context: int, state_dir: str = "", state_limit_bytes: int = 256_000_000
    ) -> None:
        self._model = LlamaModel(model, threads=threads, context=context)
        self._states = StateStore(Path(state_dir), state_limit_bytes) if state_dir else None
        self._prefix = ""
        self._prefix_tokens: list[int] = []
        self._request = threading.Lock()
        self._saving: threading.Thread | None = None

    def prepare(self, prefix: str, job: Job) -> str:
        """Make ``prefix`` ready ahead of time; returns its ``prefix_source``."""
        with self._exclusive(job):
            tokens = self._tokens_of(prefix)
            self._check_room(len(tokens), 1)
            return self._make_ready(prefix, tokens)

    def generate(self, request: Generation, job: Job) -> Iterator[str | Completion]:
        """Pieces of text as they become certain, then one :class:`Completion`.

        The answer ends early, with ``finish`` ``length``, where the context is full. Raises ``InvalidArguments`` for a
        bad grammar or a prompt that does not fit, ``Cancelled`` on cancel; the prefix outlives both.
        """
        started = time.monotonic()
        if request.max_tokens < 1:
            raise InvalidArguments(f"At least 1 token must be asked for, not {request.max_tokens}.")
        with self._exclusive(job):
            prefix = self._tokens_of(request.prefix)
            suffix = self._model.tokenize(request.suffix)
            if not suffix:
                raise InvalidArguments("The suffix is empty; move the end of the prompt from the prefix into it.")
            self._check_room(len(prefix), len(suffix))
            sampler = LlamaSampler(
                self._model, grammar=request.grammar, temperature=request.temperature, seed=request.seed
            )
            with closing(sampler):
                source = self._make_ready(request.prefix, prefix)
                self._model.start_run()
                self._model.read(suffix, len(prefix))
                position = len(prefix) + len(suffix)
                limit = min(request.max_tokens, self._model.context_size - position)
                stream = TextStream(request.stop)
                pieces: list[str] = []
                count, finish, first_token_s = 0, "length", 0.0
                while True:
                    if job.cancelled:
                        raise Cancelled("The generation was cancelled.")
                    token = sampler.next()
                    first_token_s = first_token_s or time.monotonic() - started
                    if self._model.is_end(token):
                        finish = "stop"
                        break
                    count += 1
                    if piece := stream.feed(self._model.piece(token)):
                        pieces.append(piece)
                        yield piece
                    if stream.stopped:
                        finish = "stop"
                        break
                    if count == limit:
                        break
                    self._model.read([token], position)
                    position += 1
                if rest := stream.finish():
                    pieces.append(rest)
                    yield rest
        # Outside: whoever has this may ask for the next without closing the iterator first.
        yield Completion(
            text="".join(pieces),
            finish=finish,
            tokens=count,
            prompt_tokens=len(suffix) + (len(prefix) if source == "decoded" else 0),
            prefix_source=source,
            first_token_s=first_token_s,
            total_s=time.monotonic() - started,
        )

    def close(self) -> None:
        """Free the model, once a prefix state that is being written is on disk."""
        self._finish_saving()
        self._model.close()

    @contextmanager
    def _exclusive(self, job: Job) -> Iterator[None]:
        """Hold the model for one job, under an abort flag of that job's own."""
        if not self._request.acquire(blocking=False):
            raise Busy("The language model is busy with another request; wait for its end.")
        try:
            flag = AbortFlag()
            self._model.use_flag(flag)
            job.on_cancel(flag.set)
            if job.cancelled:
                raise Cancelled("The generation was cancelled.")
            yield
        finally:
            self._request.release()

    def _tokens_of(self, prefix: str) -> list[int]:
        return self._prefix_tokens if prefix == self._prefix else self._model.tokenize(prefix)

    def _check_room(self, prefix: int, suffix: int) -> None:
        room = self._model.context_size - 1  # one token of answer at least
        if prefix + suffix > room:
            raise InvalidArguments(
                f"The prompt of {prefix} + {suffix} tokens does not fit into the {room} that the context has; "
                "shorten it or set a larger context."
            )

    def _make_ready(self, prefix: str, tokens: list[int]) -> str:
        """Put the prefix into the model; the old one is kept until that has succeeded."""
        if prefix == self._prefix:
            return "kept"
        old = self._model.prefix_state() if self._prefix_tokens else None
        try:
            source = self._restore_or_read(tokens)
        except BaseException:
            if old is None or not self._model.restore_prefix(old):
                self._prefix, self._prefix_tokens = "", []
            raise
        self._prefix, self._prefix_tokens = prefix, tokens
        return source

    def _restore_or_read(self, tokens: list[int]) -> str:
        if self._states is None or not tokens:
            self._model.read_prefix(tokens)
            return "decoded"
        key = state_key((*self._model.identity, tokens))
        state = self._states.load(key)
        if state is not None:
            if self._model.restore_prefix(state):
                return "disk"
            _LOG.warning("llama.cpp refused a prefix state from disk; it is made again")
            self._states.remove(key)
        self._model.read_prefix(tokens)
        self._finish_saving()
        # Aside: writing tens of megabytes to a card must neither delay the first token nor hold up a cancel.
        self._saving = threading.Thread(
            target=self._states.save, args=(key, self._model.prefix_state()), name="prefix-state", daemon=True
        )
        self._saving.start()
        return "decoded"

    def _finish_saving(self) -> None:
        if self._saving is not None:
            self._saving.join(_SAVE_WAIT_S)
            self._saving = None
