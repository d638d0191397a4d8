"""What every check is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..models import model_root
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
    def state_dir(self) -> Path:
        """Where the service keeps its state, which differs from where whoever asks would keep it."""
        return self._folder("lib", self.settings.storage.state) or self.settings.state_dir()

    @property
    def cache_dir(self) -> Path:
        """Where the service keeps what can be made again."""
        return self._folder("cache", self.settings.storage.cache) or self.settings.cache_dir()

    @property
    def models_dir(self) -> Path:
        """Where the service looks for models."""
        service = self._folder("lib", self.settings.storage.models)
        return service / "models" if service else model_root(self.settings)

    @property
    def status(self) -> dict[str, Any]:
        """What the running famulus says of itself, ``{}`` where none answers."""
        return self.service.status or {}

    def _folder(self, kind: str, configured: str) -> Path | None:
        """What systemd gives the unit; None where the settings or whoever asks decide."""
        return self.machine.var / kind / "famulus" if self.machine.system_unit and not configured else None
