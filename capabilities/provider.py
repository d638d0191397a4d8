"""What stands behind a capability: a built-in, an app on D-Bus, an MCP server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .command import Outcome


@dataclass(frozen=True)
class CallContext:
    """What a provider may know about the call it serves. ``source``: voice, bus, cli or channel.

    ``owner`` is the bus name of the app that asked, ``""`` for a person at the device.
    """

    call_id: str
    run_id: str
    language: str = "en"
    source: str = "bus"
    session: str = ""
    owner: str = ""


class Provider(Protocol):
    """Runs the commands of one capability."""

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        """Do it. ``args`` are valid. A known failure is an Outcome with an error, or a ``FamulusError``."""

    async def cancel(self, call_id: str) -> None:
        """Stop a call that runs; an unknown or finished one is not an error."""
