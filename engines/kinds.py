"""Which class stands behind the name of an engine, and which methods a caller may reach on it."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.errors import ModelUnavailable

ENGINES = {
    "moonshine": "famulus.engines.moonshine:Moonshine",
    "llama_cpp": "famulus.engines.llama_cpp:LlamaCpp",
    "use": "famulus.engines.use:Use",
}

# Method name → whether it streams. No other method of an engine can be called from outside.
METHODS = {
    "transcribe": False,
    "prepare": False,
    "generate": True,
    "embed": False,
    "fit": False,
    "classify": False,
    "synthesize": False,
}


def construct(engine: str, options: dict[str, Any]) -> Any:
    """Build the engine named ``moonshine``, ``llama_cpp`` or ``module:Class``; this loads its model."""
    module_name, separator, class_name = ENGINES.get(engine, engine).partition(":")
    if not separator:
        raise ModelUnavailable(f"There is no engine named {engine!r}; choose one of {', '.join(ENGINES)}.")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ModelUnavailable(f"The engine {engine} cannot be imported ({error}); install what it needs.") from error
    return cls(**options)
