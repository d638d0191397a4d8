"""Models that the catalogue does not list: a file named by its path, and what was made on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.errors import InvalidArguments, NotFound
from .catalogue import Catalogue, LocalSource, ModelEntry, ModelFile
from .store import Store

_ENGINES = {".gguf": "llama_cpp"}
"""The engine for a file of one's own, by the ending of its name."""


def is_path(model: str) -> bool:
    """Whether a setting names a file instead of an id."""
    return "/" in model or model.startswith("~")


def own_entry(model: str) -> ModelEntry:
    """The entry of a language model named by its path; it need not exist yet.

    Raises ``InvalidArguments`` for a path that is not absolute, or whose ending no engine stands for.
    """
    path = Path(model).expanduser()
    if not path.is_absolute():
        raise InvalidArguments(f"Write the whole path of {model}: the service runs in another folder than you.")
    engine = _ENGINES.get(path.suffix.lower())
    if engine is None:
        raise InvalidArguments(
            f"{model} is not a model file that famulus can load; it needs one of {' '.join(_ENGINES)}."
        )
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    if path.name.startswith("."):
        raise InvalidArguments(f"{model} is a hidden file; give it a name without a leading dot.")
    return ModelEntry(
        id=plain_id(path.stem),
        title=f"own file {path}",
        role="llm",
        engine=engine,
        licence="unknown",
        source=LocalSource(kind="local", folder=str(path.parent)),
        files=(ModelFile(name="model", member=path.name, size=max(size, 1), sha256=""),),
    )


def find_entry(model: str, catalogue: Catalogue, store: Store) -> ModelEntry:
    """What a setting names: a path, an id of the catalogue, or the id of a model made on this machine.

    Raises ``NotFound`` with a suggestion, or ``InvalidArguments`` for a path that cannot be used. Reads the disk for
    what the catalogue does not list.
    """
    if is_path(model):
        return own_entry(model)
    try:
        return catalogue.entry(model)
    except NotFound:
        return catalogue.with_entries(store.local_entries()).entry(model)


def plain_id(name: str) -> str:
    """``name`` as an id: letters, digits and ``._+-``."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-") or "model"
