"""What the bus needs of the rest of the daemon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...capabilities.command import Capability
from ...capabilities.provider import Provider
from ..agent.run import Listener, RunResult, Utterance


class Run(Protocol):
    """One dispatch of an utterance."""

    @property
    def id(self) -> str: ...

    async def wait(self) -> RunResult:
        """The result, once there is one. Cancelling the wait leaves the run alone."""


class Agent(Protocol):
    """Takes utterances and runs them."""

    def start(self, utterance: Utterance, run_id: str = "") -> Run:
        """Begin a run. Raises ``Busy`` or ``InvalidArguments`` at once."""

    def cancel(self, run_id: str, owner: str) -> bool:
        """Cancel an open run of ``owner``; False when there is none of that id."""

    def cancel_owner(self, owner: str) -> None:
        """Cancel all that an app asked for."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event; the returned function ends it."""


class Voice(Protocol):
    """The voice loop."""

    @property
    def state(self) -> str: ...

    def listen(self) -> str:
        """Begin a turn without the wake word; its run id. Raises ``Busy``, ``NotFound`` or ``ModelUnavailable``."""


class Registry(Protocol):
    """Holds what can be done."""

    def register(self, capability: Capability, provider: Provider) -> None:
        """Offer a capability; the same provider may replace its own. Raises ``InvalidArguments``."""

    def unregister(self, name: str) -> None:
        """Withdraw a capability."""

    def on_change(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call ``callback(version)`` after every change; the returned function ends it."""

    def capabilities(self) -> Sequence[Capability]: ...


Status = Callable[[], dict[str, Any]]
"""The state of all parts as JSON values. ``health``, where present, maps a part to one word."""
