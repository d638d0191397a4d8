"""org.famulus.Agent1: what a program can ask of famulus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbus_fast import Variant

from ...client.objects import ServedInterface
from ...core.errors import NotFound, TimedOut
from ..agent.run import Event, Utterance
from .identity import Identities
from .options import RunOptions, check_text, only, run_options
from .ports import Agent, Run, Status, Voice
from .results import to_json, to_variants
from .signals import Emit, Signals

XML = (Path(__file__).parent / "org.famulus.Agent1.xml").read_text(encoding="utf-8")
NAME = "org.famulus.Agent1"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _OpenRun:
    """A run that somebody on this bus waits for. ``owner`` is whom the agent knows it by: "" for a spoken one."""

    caller: str
    owner: str


class Agent1:
    """The methods, properties and signals of the interface."""

    def __init__(
        self, agent: Agent, voice: Voice | None, *, status: Status, version: str, identities: Identities, emit: Emit
    ) -> None:
        self._agent = agent
        self._voice = voice
        self._status = status
        self._version = version
        self._identities = identities
        self._runs: dict[str, _OpenRun] = {}
        self._deadlines: dict[str, asyncio.TimerHandle] = {}
        self._callers: set[str] = set()
        self._starting = ""
        self._ended_at_once: set[str] = set()
        self._signals = Signals(emit, self._owner_of)
        self.interface = ServedInterface(
            XML,
            {
                "Ask": self._ask,
                "Start": self._start,
                "Cancel": self._cancel,
                "Listen": self._listen,
                "Subscribe": self._subscribe,
                "Unsubscribe": self._unsubscribe,
                "Status": lambda sender: [to_json(self._status())],
            },
            {
                "Version": lambda: self._version,
                "State": lambda: self._voice.state if self._voice else "idle",
                "Mode": lambda: "local",
                "Scene": lambda: "",
                "Health": self._health,
            },
        )

    def on_event(self, event: Event) -> None:
        """Send an event of the agent to those who may hear it."""
        self._signals.publish(event)
        if event.kind == "finished":
            if self._starting:
                self._ended_at_once.add(event.run)
            self._forget_run(event.run)

    def timer_fired(self, timer_id: str, label: str, owner: str) -> None:
        # A timer outlives connections, and a bus that has restarted gives their names to others.
        self._signals.timer_fired(timer_id, label, owner if owner in self._callers else "")

    def drop(self, name: str) -> None:
        """A connection has gone: stop what it asked for."""
        self._signals.unsubscribe(name)
        self._callers.discard(name)
        runs = {run_id: run for run_id, run in self._runs.items() if run.caller == name}
        for run_id, run in runs.items():
            self._forget_run(run_id)
            if not run.owner:
                self._agent.cancel(run_id, "")
        self._agent.cancel_owner(name)

    def drop_all(self) -> None:
        """The bus has gone, and everybody with it."""
        self._signals.clear()
        self._callers.clear()
        for name in {run.caller for run in self._runs.values()}:
            self.drop(name)

    def _ask(self, sender: str, text: str, options: dict[str, Variant]) -> Any:
        checked = run_options(options)
        return self._answer(self._begin(sender, text, checked), sender, checked.timeout_s)

    async def _answer(self, run: Run, sender: str, timeout_s: float | None) -> Sequence[Any]:
        try:
            async with asyncio.timeout(timeout_s):
                result = await run.wait()
        except TimeoutError:
            self._agent.cancel(run.id, sender)
            raise TimedOut(f"The run did not end within {timeout_s:g} s and was cancelled; allow more time.") from None
        variants = to_variants(result.to_dict())
        del variants["reply"]
        return [result.reply, variants]

    def _start(self, sender: str, text: str, options: dict[str, Variant]) -> Sequence[Any]:
        checked = run_options(options)
        run = self._begin(sender, text, checked)
        if checked.timeout_s is not None and run.id in self._runs:
            loop = asyncio.get_running_loop()
            self._deadlines[run.id] = loop.call_later(checked.timeout_s, self._agent.cancel, run.id, sender)
        return [run.id]

    def _begin(self, sender: str, text: str, options: RunOptions) -> Run:
        utterance = Utterance(check_text(text), "bus", options.language, options.session, sender)
        self._callers.add(sender)
        self._starting = sender
        self._ended_at_once.clear()
        try:
            run = self._agent.start(utterance)
        finally:
            self._starting = ""
        _LOG.debug("run %s was asked for by %s", run.id, sender, extra={"RUN": run.id, "CALLER": sender})
        if run.id not in self._ended_at_once:
            self._runs[run.id] = _OpenRun(sender, sender)
        return run

    def _cancel(self, sender: str, run_id: str) -> Any:
        run = self._runs.get(run_id)
        if run is not None and run.caller == sender and self._agent.cancel(run_id, run.owner):
            return []
        return self._cancel_other(sender, run_id, run.owner if run else "")

    async def _cancel_other(self, sender: str, run_id: str, owner: str) -> Sequence[Any]:
        caller = await self._identities.caller(sender)
        if not caller.privileged or not self._agent.cancel(run_id, owner):
            raise NotFound("There is no open run of yours with that id.")
        return []

    def _listen(self, sender: str, options: dict[str, Variant]) -> Sequence[Any]:
        only(options, ())
        if self._voice is None:
            raise NotFound("There is no microphone here; send text with Ask.")
        run_id = self._voice.listen()
        self._runs[run_id] = _OpenRun(sender, "")
        return [run_id]

    async def _subscribe(self, sender: str) -> Sequence[Any]:
        caller = await self._identities.caller(sender)
        self._signals.subscribe(sender, privileged=caller.privileged)
        return []

    def _unsubscribe(self, sender: str) -> Sequence[Any]:
        if not self._signals.unsubscribe(sender):
            raise NotFound("There is no subscription of yours to end.")
        return []

    def _health(self) -> dict[str, str]:
        health = self._status().get("health", {})
        return {str(part): str(state) for part, state in health.items()} if isinstance(health, dict) else {}

    def _owner_of(self, event: Event) -> str:
        """The connection whose run the event is of; a run from before a reconnection has none any more."""
        if self._starting and event.owner == self._starting:
            return self._starting
        run = self._runs.get(event.run)
        return run.caller if run else ""

    def _forget_run(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        if deadline := self._deadlines.pop(run_id, None):
            deadline.cancel()
