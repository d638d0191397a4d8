"""The on-demand models as Settings describe them: which files, which engine, which slot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import FamulusError, InvalidArguments
from ..engines.handles import EmbedderHandle, Handle, LanguageModelHandle, RecognizerHandle
from ..engines.host import Host
from ..engines.pool import Pool
from ..engines.process import ProcessHost
from ..engines.slot import Slot
from ..models.catalogue import Catalogue, ModelEntry, Role
from ..models.own import find_entry, is_path, own_entry
from ..models.store import Store
from .settings import Memory, Settings

_MB = 1_000_000
_OVERHEAD: dict[Role, int] = {"asr": 110 * _MB, "llm": 120 * _MB, "embedder": 100 * _MB}
"""Resident memory of a worker beyond its model file, measured on x86_64 (Python, library, buffers)."""
_OTHER_OVERHEAD = 110 * _MB
_CONTEXT_BYTES = 24 * 1024
"""Per token of context; 12–23 KiB were measured for models of 0.1 to 2 billion parameters."""

HandleT = TypeVar("HandleT", bound=Handle)


def make_pool(memory: Memory) -> Pool:
    """The memory that all models may take together."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Pool(memory.budget_mb * _MB or total * 3 // 4, memory.reserve_mb * _MB)


class ModelSlots:
    """Makes the slots. A model that is missing is told at each load, so that a pull mends it without a restart."""

    def __init__(self, settings: Settings, catalogue: Catalogue, store: Store, pool: Pool) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._store = store
        self._pool = pool

    def recognizer(self) -> Slot[RecognizerHandle]:
        """The slot of ``asr.model``. Raises ``InvalidArguments`` where that is no speech-to-text model."""
        asr = self._settings.asr
        return self._slot(
            "asr", asr.model, RecognizerHandle, options={"threads": asr.threads}, keep_alive_s=asr.keep_alive_s
        )

    def language_model(self) -> Slot[LanguageModelHandle] | None:
        """The slot of ``llm.model``; None where there is none. Raises ``InvalidArguments`` where that is no model."""
        llm = self._settings.llm
        if not llm.model:
            return None
        options = {
            "threads": llm.threads or max(1, (os.cpu_count() or 2) - 1),
            "context": llm.context,
            "state_dir": str(self._settings.cache_dir() / "prefix"),
        }
        return self._slot(
            "llm",
            llm.model,
            LanguageModelHandle,
            options=options,
            keep_alive_s=llm.keep_alive_s,
        )

    def embedder(self) -> Slot[EmbedderHandle] | None:
        """The slot of ``embedder.model``; None where there is none. Raises ``InvalidArguments`` for another model."""
        embedder = self._settings.embedder
        if not embedder.model:
            return None
        options = {"threads": embedder.threads, "cache_dir": str(self._settings.cache_dir() / "phrases")}
        return self._slot(
            "embedder", embedder.model, EmbedderHandle, options=options, keep_alive_s=embedder.keep_alive_s
        )

    def _slot(
        self,
        role: Role,
        model: str,
        handle: type[HandleT],
        *,
        options: dict[str, Any],
        keep_alive_s: float,
    ) -> Slot[HandleT]:
        entry = find_entry(model, self._catalogue, self._store)
        if entry.role != role:
            raise InvalidArguments(f"{role}.model is {model}, which is a model for {entry.role}: choose another.")

        def open_host() -> Host:
            files = {name: str(path) for name, path in self._store.files(entry).items()}
            return ProcessHost(entry.engine, {**files, **options}, name=entry.id)

        return Slot(
            entry.id,
            handle,
            open_host,
            pool=self._pool,
            need_bytes=need_bytes(entry, self._settings.llm.context),
            keep_alive_s=keep_alive_s,
        )


def memory_needs(settings: Settings, catalogue: Catalogue) -> dict[str, int]:
    """Bytes that each model of the settings takes when loaded, by its id; without those the catalogue has not."""
    known = {entry.id: entry for entry in catalogue.entries if entry.role in _OVERHEAD}
    if is_path(settings.llm.model):
        known[settings.llm.model] = own_entry(settings.llm.model)
    chosen = (settings.asr.model, settings.llm.model, settings.embedder.model)
    return {model: need_bytes(known[model], settings.llm.context) for model in chosen if model in known}


def need_bytes(entry: ModelEntry, context: int) -> int:
    """Bytes that a model takes when loaded; ``context`` in tokens counts for language models only."""
    return (
        entry.size
        + _OVERHEAD.get(entry.role, _OTHER_OVERHEAD)
        + (context * _CONTEXT_BYTES if entry.role == "llm" else 0)
    )


def missing_models(settings: Settings, catalogue: Catalogue, store: Store) -> dict[str, str]:
    """What the settings name and the disk does not hold: model id → what to do. Reads the disk."""
    problems: dict[str, str] = {}
    for model in (settings.asr.model, settings.llm.model, settings.embedder.model):
        if model:
            try:
                store.files(find_entry(model, catalogue, store))
            except FamulusError as error:
                problems[model] = error.message
    return problems


def model_root(settings: Settings) -> Path:
    """The folder of the models that the settings name."""
    from ..models.store import default_root

    return default_root(settings.storage.models)
