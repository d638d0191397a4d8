"""The bus: can it be reached, does its policy let famulus in, does famulus answer on it?"""

from __future__ import annotations

from xml.etree import ElementTree

from .finding import Finding, fault, ok, warning
from .situation import Situation

_POLICY = "dbus-1/system.d/org.famulus.Agent.conf"


def bus(situation: Situation) -> Finding:
    """The bus answers."""
    service = situation.service
    if not service.address:
        return ok("bus", "The settings want no bus (bus.address is none).")
    if not service.problem:
        return ok("bus", f"The {'system' if service.is_system_bus else 'session'} bus answers.")
    if service.is_system_bus:
        return fault("bus", service.problem, "sudo apt install dbus && sudo systemctl start dbus")
    mend = "log in to a session, or set bus.address to system in famulus.toml"
    return fault("bus", service.problem, mend)


def bus_policy(situation: Situation) -> Finding:
    """The system bus lets the service's user own the name, and whoever asks call it."""
    name, machine, service = "bus policy", situation.machine, situation.service
    if not service.address or not service.is_system_bus:
        return ok(name, "Not needed: famulus is not on the system bus.")
    if service.refusal == "denied":
        mend = f"sudo usermod -aG famulus {machine.user}, then log in again"
        return fault(name, f"{machine.user} may not talk to famulus.", mend)
    owned, user = situation.settings.bus.name, machine.service_user
    for file in (machine.etc / _POLICY, machine.usr / "share" / _POLICY):
        if not file.is_file():
            continue
        try:
            allowed = _may_own(ElementTree.parse(file).getroot(), user, owned)  # noqa: S314 - a file of root's
        except (ElementTree.ParseError, OSError) as error:
            return fault(name, f"{file} cannot be used ({error}).", "sudo script/install")
        if allowed:
            return ok(name, f"{user} may own {owned}.")
        return fault(name, f"{file} does not let {user} own {owned}.", "sudo script/install")
    if not machine.system_unit:
        return warning(name, f"Only root may own {owned} until famulus is installed.", "sudo script/install")
    return fault(name, f"No policy lets {user} own {owned}.", "sudo script/install")


def _may_own(policy: ElementTree.Element, user: str, name: str) -> bool:
    return any(
        rule.get("own") == name
        for block in policy.iter("policy")
        if block.get("user") == user
        for rule in block.iter("allow")
    )


def service(situation: Situation) -> Finding:
    """Somebody owns the name and answers."""
    name, machine, found = "service", situation.machine, situation.service
    if not found.address or found.problem:
        return ok(name, "Not asked: there is no bus to ask on.")
    if found.owner_uid is None:
        return warning(name, "famulus does not run.", machine.systemctl("start"))
    if found.refusal == "denied":
        return ok(name, "famulus runs; what it says is not for this user.")
    if found.status is None:
        return fault(name, f"famulus does not answer: {found.refused_because}", machine.systemctl("restart"))
    state = found.status.get("state", "unknown")
    return ok(name, f"famulus {found.status.get('version', '')} runs and is {state}.")
