"""What every check is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..settings import Settings
from ..settings_files import Problem
from .machine import Machine
from .service import Service


@dataclass(frozen=True)
class Situation:
    """``settings`` are the defaults while there are ``problems``; ``verify`` asks for every byte of the models."""

    machine: Machine = field(default_factory=Machine)
    settings: Settings = field(default_factory=Settings)
    config: Path | None = None
    problems: tuple[Problem, ...] = ()
    service: Service = field(default_factory=Service)
    verify: bool = False

    @property
    def status(self) -> dict[str, Any]:
        """What the running famulus says of itself, ``{}`` where none answers."""
        return self.service.status or {}
