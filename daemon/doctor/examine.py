"""All checks in order, each with a deadline; one that breaks is a finding like any other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ..settings import Settings
from ..settings_files import Problem, SettingsError, load_settings
from . import bus, clock, heat, models, sound, storage, versions
from . import settings as settings_check
from .finding import Finding, fault
from .machine import Machine
from .service import Service, look_for_service
from .situation import Situation

Check = Callable[[Situation], Finding | list[Finding]]
T = TypeVar("T")

CHECKS: tuple[Check, ...] = (
    versions.versions,
    versions.packages,
    settings_check.settings,
    bus.bus,
    bus.bus_policy,
    bus.service,
    sound.microphone,
    sound.audio_group,
    sound.audio_server,
    sound.user_session,
    models.models,
    models.memory,
    models.swap,
    storage.disk_space,
    storage.wear,
    clock.clock,
    heat.temperature,
    heat.throttling,
    versions.remote,
)

_DEADLINE_S = 20.0
_VERIFY_S = 600.0
"""Reading some gigabytes from a slow card takes minutes."""


def examine(
    machine: Machine,
    *,
    config: Path | None = None,
    verify: bool = False,
    checks: Iterable[Check] = CHECKS,
    deadline_s: float = _DEADLINE_S,
) -> Iterator[Finding]:
    """Run the checks and yield what each finds as soon as it has found it; raises nothing."""
    loaded = _bounded(lambda: _load(config), deadline_s)
    if isinstance(loaded, _Broken):
        loaded = Settings(), (Problem("settings", "", f"reading them {loaded.why}"),)
    settings, problems = loaded
    service = _bounded(lambda: look_for_service(machine, settings.bus), deadline_s)
    if isinstance(service, _Broken):
        yield _told("bus", service)
        service = Service()
    situation = Situation(machine, settings, config, problems, service, verify)
    for check in checks:
        slow = verify and check is models.models
        found = _bounded(lambda check=check: check(situation), _VERIFY_S if slow else deadline_s)  # type: ignore[misc]
        if isinstance(found, _Broken):
            yield _told(check.__name__.replace("_", " "), found)
        elif isinstance(found, Finding):
            yield found
        else:
            yield from found


def _load(config: Path | None) -> tuple[Settings, tuple[Problem, ...]]:
    try:
        return load_settings(config), ()
    except SettingsError as error:
        return Settings(), error.problems


@dataclass(frozen=True)
class _Broken:
    why: str


class _Work(threading.Thread, Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__(name="check", daemon=True)  # one that hangs is left behind
        self._function = function
        self.result: T | _Broken = _Broken("came to no end")

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # also an exit that some library asks for
            self.result = _Broken(f"broke with {type(error).__name__}: {error}")


def _bounded(function: Callable[[], T], deadline_s: float) -> T | _Broken:
    work = _Work(function)
    work.start()
    work.join(deadline_s)
    return _Broken(f"did not end within {deadline_s:g} s") if work.is_alive() else work.result


def _told(name: str, broken: _Broken) -> Finding:
    return fault(name, f"This check {broken.why}.", "famulus doctor --json, and report it as a bug of famulus")
