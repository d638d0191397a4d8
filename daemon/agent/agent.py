"""The agent: takes utterances, runs them one by one through the stages, and tells listeners what happens."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...capabilities.command import Call, Language, Outcome
from ...capabilities.provider import CallContext
from ...capabilities.registry import Registry
from ...core.errors import Busy, Failed, FamulusError
from ..texts import TEXTS
from .run import CallReport, Decider, Event, Listener, RunResult, Status, Utterance
from .stop import is_stop
from .text import check_utterance
from .trace import Trace
from .understand import Understander, Understanding

_LOG = logging.getLogger(__name__)
_REMEMBERED = 50


class Run:
    """One dispatch of an utterance."""

    def __init__(self, run_id: str, utterance: Utterance) -> None:
        self.id = run_id
        self.utterance = utterance
        self.result: RunResult | None = None
        self.task: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()

    async def wait(self) -> RunResult:
        """The result, once there is one. Cancelling the wait leaves the run alone."""
        await self._finished.wait()
        assert self.result is not None
        return self.result

    def finish(self, result: RunResult) -> None:
        self.result = result
        self._finished.set()


class Agent:
    """Owns the runs. ``queue`` bounds how many may be open at once; one more is refused with ``Busy``."""

    def __init__(self, registry: Registry, understander: Understander, *, budget_s: float, queue: int) -> None:
        self._registry = registry
        self._understander = understander
        self._budget_s = budget_s
        self._queue = queue
        self._runs: dict[str, Run] = {}
        self._listeners: list[Listener] = []
        self._counter = itertools.count(1)
        self._prefix = secrets.token_hex(3)
        self._canceller: Callable[[str, str], bool] = lambda run_id, spare: False
        self.recent: deque[RunResult] = deque(maxlen=_REMEMBERED)

    def new_run_id(self) -> str:
        """An id that no other run of this or an earlier daemon has, in ascending order within this one."""
        return f"{self._prefix}-{next(self._counter)}"

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event; the returned function ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def publish(self, event: Event) -> None:
        """Tell all listeners; one that fails does not keep the others from hearing."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                _LOG.exception("a listener failed on a %s event", event.kind)

    def also_cancel(self, canceller: Callable[[str, str], bool]) -> None:
        """Reach what is not a run yet: ``canceller(run_id, spare)`` ends a voice turn, with ``""`` all but ``spare``.

        It returns True where it ended something.
        """
        self._canceller = canceller

    def start(self, utterance: Utterance, run_id: str = "") -> Run:
        """Begin a run. Raises ``InvalidArguments`` for impossible text and ``Busy`` when the queue is full.

        Stop words bypass the queue: they are carried out before this returns.
        """
        text = check_utterance(utterance.text)
        run = Run(run_id or self.new_run_id(), utterance)
        normalised, language = self._understander.normalised(utterance)
        if is_stop(normalised):
            stopped = self.stop_everything(spare=run.id)
            reply = TEXTS.get("stopped" if stopped else "nothing_to_stop", language)
            self._finish(run, RunResult(run.id, "done", reply, decided_by="stop"))
            return run
        if len(self._runs) >= self._queue:
            raise Busy(f"{len(self._runs)} requests are being worked on already: try again in a moment.")
        _LOG.debug("run %s: %r", run.id, text, extra={"RUN": run.id})
        self._runs[run.id] = run
        run.task = asyncio.create_task(self._dispatch(run), name=f"run {run.id}")
        run.task.add_done_callback(lambda _: self._make_sure_of_an_end(run))
        return run

    def cancel(self, run_id: str, owner: str | None = None) -> bool:
        """Cancel an open run, of ``owner`` only where one is given; False when there is none such."""
        run = self._runs.get(run_id)
        if run is None:
            return not owner and self._canceller(run_id, "")
        if run.task is None or owner not in (None, run.utterance.owner):
            return False
        run.task.cancel()
        return True

    def cancel_owner(self, owner: str) -> None:
        """Cancel what an app asked for: it has gone."""
        for run in tuple(self._runs.values()):
            if run.utterance.owner == owner:
                self.cancel(run.id)

    def stop_everything(self, spare: str = "") -> bool:
        """L0: cancel all runs and voice turns but the one that says so; True when something was stopped."""
        stopped = [self.cancel(run_id) for run_id in tuple(self._runs)]
        return any([*stopped, self._canceller("", spare)])

    async def close(self) -> None:
        """Cancel all runs and wait until they have told their end."""
        self.stop_everything()
        tasks = [run.task for run in self._runs.values() if run.task]
        if tasks:
            await asyncio.wait(tasks, timeout=2)

    async def _dispatch(self, run: Run) -> None:
        def on_stage(name: str) -> None:
            self.publish(Event("stage", run.id, run.utterance.owner, {"stage": name}))

        trace = Trace(on_stage)
        language: Language = "en"
        status: Status = "failed"
        reply, error, reports = "", "", list[CallReport]()
        understanding = Understanding(language)
        try:
            async with asyncio.timeout(self._budget_s):
                understanding = await self._understand(run, trace)
                language = understanding.language
                if understanding.calls:
                    with trace.stage("execute"):
                        await self._execute(run, understanding.calls, language, reports)
                    with trace.stage("summarise"):
                        reply = _summary(reports, language)
                    status, error = _status(reports)
                else:
                    status = "not_understood"
                    reply = understanding.problem or TEXTS.get("not_understood", language)
        except asyncio.CancelledError:
            status, error, reply = "cancelled", "cancelled", TEXTS.get("stopped", language)
        except FamulusError as err:
            error, reply = err.code, err.message
        except TimeoutError:
            status, error, reply = "timed_out", "timed_out", TEXTS.get("took_too_long", language)
        except Exception:
            _LOG.exception("run %s failed", run.id, extra={"RUN": run.id})
            error, reply = Failed.code, TEXTS.get("went_wrong", language)
        decided_by: Decider = understanding.decided_by
        self._finish(run, RunResult(run.id, status, reply, decided_by, tuple(reports), trace.stages_ms, error))

    async def _understand(self, run: Run, trace: Trace) -> Understanding:
        """Two stages in one: ``intent`` until a model must be asked, ``select`` while it is."""
        with trace.stage("intent"):
            quick = await self._understander.quick(run.utterance)
        if quick is not None:
            return quick
        with trace.stage("select"):
            return await self._understander.ask_model(run.utterance)

    async def _execute(self, run: Run, calls: Sequence[Call], language: Language, reports: list[CallReport]) -> None:
        for number, call in enumerate(calls, 1):
            call_id = f"{run.id}.{number}"
            said = run.utterance
            context = CallContext(call_id, run.id, language, said.source, said.session, said.owner)
            try:
                valid = self._registry.validate(call)
            except FamulusError as err:
                valid, outcome = call, Outcome.model_validate({"error": {"code": err.code, "message": err.message}})
            else:
                outcome = await self._registry.invoke(valid, context)
            reports.append(CallReport(call_id, valid.method, valid.args, outcome.model_dump()))

    def _make_sure_of_an_end(self, run: Run) -> None:
        """A task that is cancelled before its first step runs no code of its own."""
        if run.result is None:
            _, language = self._understander.normalised(run.utterance)
            self._finish(run, RunResult(run.id, "cancelled", TEXTS.get("stopped", language), error="cancelled"))

    def _finish(self, run: Run, result: RunResult) -> None:
        self._runs.pop(run.id, None)
        self.recent.append(result)
        _LOG.info(
            "run %s: %s by %s, %d calls, %.0f ms",
            *(result.run, result.status, result.decided_by or "nothing", len(result.calls)),
            sum(result.stages_ms.values()),
            extra={"RUN": run.id},
        )
        result = replace(result, voice_ms=run.utterance.voice_ms)
        run.finish(result)
        self.publish(Event("finished", run.id, run.utterance.owner, result.to_dict()))


def _summary(reports: Sequence[CallReport], language: Language) -> str:
    """What to say: each outcome's own words, its error's sentence, or a plain "Done."."""
    parts: list[str] = []
    for report in reports:
        error = report.outcome["error"]
        parts.append(error["message"] if error else report.outcome["say"] or TEXTS.get("done", language))
    separator = "" if language == "zh" else " "
    return separator.join(dict.fromkeys(parts))


def _status(reports: Sequence[CallReport]) -> tuple[Status, str]:
    errors = [report.outcome["error"]["code"] for report in reports if report.outcome["error"]]
    return ("failed", errors[0]) if errors else ("done", "")
