"""Models: are they here and whole, and is there memory for them?"""

from __future__ import annotations

import os
from pathlib import Path

from ...core.errors import FamulusError
from ...models.catalogue import Catalogue, LocalSource
from ...models.own import find_entry
from ...models.store import Store
from ..board import read_text
from ..models import memory_needs
from .disks import disk_of_device, disk_of_path, nearest
from .finding import Finding, fault, ok, warning
from .machine import is_there
from .situation import Situation

_LARGE = 1_000_000_000
"""A model of about two billion parameters in four bits takes more than this."""


def models(situation: Situation) -> list[Finding]:
    """A finding for every model that the settings name: there, and whole."""
    machine = situation.machine
    data = machine.var / "lib/famulus"
    if machine.system_unit and is_there(data) and not os.access(data, os.X_OK):
        return [warning("models", f"{machine.user} may not look into {data}.", "sudo famulus doctor")]
    catalogue = Catalogue.load()
    store = Store(situation.models_dir)
    settings = situation.settings
    wanted = {
        "asr": settings.asr.model,
        "llm": settings.llm.model,
        "embedder": settings.embedder.model,
        "vad": "silero-vad",
        "wake": settings.wake.engine,
    }
    if settings.audio.source == "none":
        del wanted["vad"], wanted["wake"]
    found = []
    for role, model in wanted.items():
        if not model:
            found.append(ok(f"model {role}", "None, by the settings: sentences only."))
            continue
        try:
            entry = find_entry(model, catalogue, store)
            state = store.state(entry)
            damaged = (
                [name for name, state in store.verify(entry).items() if state != "present"] if situation.verify else []
            )
        except FamulusError as error:
            found.append(fault(f"model {role}", error.message, "famulus models list"))
            continue
        if entry.role != role:
            found.append(fault(f"model {role}", f"{model} is a model for {entry.role}.", "famulus models list"))
        elif damaged or state != "present":
            message = f"{model} is {'damaged' if damaged else state} in {store.root}."
            # Without the sentence encoder less is understood, but everything works.
            problem = warning if role == "embedder" else fault
            mend = store.remedy(entry) if isinstance(entry.source, LocalSource) else _pull(situation, model)
            found.append(problem(f"model {role}", message, mend.removeprefix("run: ")))
        else:
            found.append(ok(f"model {role}", f"{model} is {'whole' if situation.verify else 'there'}."))
    return found


def _pull(situation: Situation, model: str) -> str:
    if situation.machine.system_unit:
        return f"sudo famulus models pull {model} --root {situation.models_dir}"
    return f"{'' if os.access(nearest(situation.models_dir), os.W_OK) else 'sudo '}famulus models pull {model}"


def memory(situation: Situation) -> Finding:
    """Each chosen model fits into the budget, both do, and there is so much to be had now."""
    name, settings = "memory", situation.settings.memory
    known = situation.machine.memory()
    total, available = known.get("MemTotal"), known.get("MemAvailable")
    if not total or available is None:
        return warning(name, "The kernel does not tell how much memory there is.", "cat /proc/meminfo")
    needs = memory_needs(situation.settings, Catalogue.load())
    budget = settings.budget_mb * 1_000_000 or total * 3 // 4
    # What a running famulus has already given to its models is not missing.
    loaded = sum(slot.get("memory_mb", 0) for slot in situation.status.get("slots", ())) * 1e6
    largest = max(needs, key=lambda model: needs[model], default="")
    together = sum(needs.values())
    facts = (
        f"the models need {_mb(together)}, of {_mb(total)} they may take {_mb(budget)}, "
        f"and {_mb(available + loaded)} can be had now"
    )
    smaller = "famulus models list, then set a smaller one in famulus.toml"
    if largest and needs[largest] > budget:
        return fault(name, f"{largest} alone needs more than models may take: {facts}.", smaller)
    if largest and needs[largest] + settings.reserve_mb * 1e6 > available + loaded:
        return warning(
            name, f"{largest} cannot be loaded just now: {facts}.", "systemd-cgtop -m -n 1, and end what is large"
        )
    if together > budget:
        return warning(name, f"Not all models fit at once, so they make room for each other: {facts}.", smaller)
    return ok(name, f"There is room: {facts}.")


def swap(situation: Situation) -> Finding:
    """With a large model there is somewhere to put what is seldom used, and that is not a memory card."""
    name, machine = "swap", situation.machine
    needs = memory_needs(situation.settings, Catalogue.load())
    large = max(needs.values(), default=0) >= _LARGE
    lines = [line.split() for line in read_text(machine.proc / "swaps").splitlines()[1:]]
    areas = {fields[0]: int(fields[2]) * 1024 for fields in lines if len(fields) >= 3 and fields[2].isdecimal()}
    if not areas:
        if large:
            message = "There is no swap, and a large model is chosen: the board may stall when memory runs out."
            return warning(name, message, "sudo apt install zram-tools")
        return ok(name, "None, and these models need none.")
    for area in areas:
        disk = disk_of_device(machine, area) if area.startswith("/dev/") else disk_of_path(machine, Path(area))
        if disk is not None and disk.is_card:
            message = f"Swap lies on the memory card ({area}), which it wears out."
            return warning(name, message, f"sudo apt install zram-tools && sudo swapoff {area}")
    what = "compressed memory (zram)" if all("zram" in area for area in areas) else ", ".join(areas)
    return ok(name, f"{_mb(sum(areas.values()))} in {what}.")


def _mb(number: float) -> str:
    return f"{number / 1e6:,.0f} MB"
