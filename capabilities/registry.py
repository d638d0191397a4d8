"""What can be done right now: capabilities with their providers, and the one way to run a command."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from ..core.errors import FamulusError, InvalidArguments, NotFound
from .command import Call, Capability, Command, Outcome, OutcomeError
from .invocation import invoke
from .parameters import did_you_mean, shown
from .policy import check_allowed
from .provider import CallContext, Provider
from .schema import CompiledSchema, compile_schema, validate_args

_LOG = logging.getLogger(__name__)
_DEPARTED = 32


@dataclass(frozen=True)
class _Entry:
    capability: Capability
    provider: Provider
    schemas: dict[str, CompiledSchema]


@dataclass(frozen=True)
class _Offer:
    """A command with the capability that won its name."""

    command: Command
    entry: _Entry

    @property
    def schema(self) -> CompiledSchema:
        return self.entry.schemas[self.command.name]


class Registry:
    """Holds capabilities in the order of their registration; ``version`` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._entries: dict[str, _Entry] = {}
        self._departed: dict[str, Capability] = {}
        self._offers: dict[str, _Offer] = {}
        self._listeners: list[Callable[[int], None]] = []

    def register(self, capability: Capability, provider: Provider) -> None:
        """Offer a capability. The same provider may replace its own; it keeps its place.

        Raises ``InvalidArguments`` where the name belongs to another provider, a schema is wrong, or a command's
        name is offered already with the same priority.
        """
        before = self._entries.get(capability.name)
        if before is not None and before.provider is not provider:
            raise InvalidArguments(
                f"The capability {capability.name} is registered by another provider; choose another name."
            )
        self._check_names(capability)
        if before is not None and before.capability == capability:
            return
        schemas = {
            command.name: compile_schema(command.parameters, f"{command.name}.parameters")
            for command in capability.commands
        }
        self._entries[capability.name] = _Entry(capability, provider, schemas)
        self._departed.pop(capability.name, None)
        self._changed()

    def unregister(self, name: str) -> None:
        """Withdraw a capability; commands that it shadowed come back. Raises ``NotFound``."""
        if name not in self._entries:
            raise NotFound(f"There is no capability {shown(name)}{did_you_mean(name, self._entries)}")
        self._departed.pop(name, None)
        self._departed[name] = self._entries.pop(name).capability
        while len(self._departed) > _DEPARTED:
            del self._departed[next(iter(self._departed))]
        self._changed()

    def on_change(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call ``callback(version)`` after every change; the returned function ends it."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback) if callback in self._listeners else None

    def capabilities(self) -> tuple[Capability, ...]:
        """All that are registered, older registrations first."""
        return tuple(entry.capability for entry in self._entries.values())

    def commands(self) -> tuple[Command, ...]:
        """The commands that a call reaches, older registrations first."""
        return tuple(offer.command for offer in self._offers.values())

    def departed_commands(self) -> tuple[Command, ...]:
        """Commands of capabilities that were withdrawn and not offered again, so that they can be named as such."""
        return tuple(
            command
            for capability in self._departed.values()
            for command in capability.commands
            if command.name not in self._offers
        )

    def find(self, method: str) -> Command:
        """The command of that name. Raises ``NotFound``, with the nearest name or that its app has gone."""
        return self._offer(method).command

    def validate(self, call: Call) -> Call:
        """The call with its defaults filled in. Raises ``NotFound`` or ``InvalidArguments``."""
        args = validate_args(self._offer(call.method).schema, call.args)
        return Call(method=call.method, args=args)

    async def invoke(self, call: Call, context: CallContext) -> Outcome:
        """Run a call; whatever goes wrong is an error in the outcome. Raises only ``CancelledError``."""
        try:
            offer = self._offer(call.method)
            args = validate_args(offer.schema, call.args)
            check_allowed(offer.command, context.language)
        except FamulusError as error:
            return Outcome(error=OutcomeError(code=error.code, message=error.message))
        return await invoke(offer.entry.provider, offer.command, args, context)

    def _offer(self, method: str) -> _Offer:
        if offer := self._offers.get(method):
            return offer
        for capability in self._departed.values():
            if any(command.name == method for command in capability.commands):
                raise NotFound(f"The app that offers {method} ({capability.name}) is not running; start it first.")
        raise NotFound(f"There is no command {shown(method)}{did_you_mean(method, self._offers) or '.'}")

    def _check_names(self, capability: Capability) -> None:
        names: set[str] = set()
        for command in capability.commands:
            if command.name in names:
                raise InvalidArguments(f"The command {command.name} stands twice in {capability.name}; remove one.")
            names.add(command.name)
        for other in self._entries.values():
            if other.capability.name == capability.name or other.capability.priority != capability.priority:
                continue
            for command in other.capability.commands:
                if command.name in names:
                    raise InvalidArguments(
                        f"The command {command.name} belongs to {other.capability.name}; choose another name, "
                        f"or another priority than {capability.priority}."
                    )

    def _changed(self) -> None:
        offers: dict[str, _Offer] = {}
        for entry in self._entries.values():
            for command in entry.capability.commands:
                held = offers.get(command.name)
                if held is None or held.entry.capability.priority < entry.capability.priority:
                    offers.pop(command.name, None)
                    offers[command.name] = _Offer(command, entry)
        self._offers = offers
        self.version += 1
        for callback in tuple(self._listeners):
            try:
                callback(self.version)
            except Exception:
                _LOG.exception("a listener to the registry failed")
