"""Builds every part from Settings, starts and stops them in one readable order: the one place that knows all rooms."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from ..capabilities.builtin import clock, timer
from ..capabilities.registry import Registry
from ..core.errors import Denied, FamulusError
from ..engines.handles import RecognizerHandle
from ..engines.protocols import Transcript
from ..engines.slot import Slot
from ..models.catalogue import Catalogue
from ..models.store import Store
from .agent.agent import Agent
from .agent.local import LocalPipeline
from .agent.meaning.matcher import SemanticMatcher
from .agent.run import RunResult, Utterance
from .agent.understand import Understander
from .board import Board
from .bus.service import BusService
from .footprint import give_back
from .hearing import endpointer_factory, make_source, spotter_factory
from .lifecycle import feed_watchdog, notify
from .metrics import Metrics
from .metrics_server import MetricsServer
from .models import ModelSlots, make_pool, missing_models, model_root
from .settings import Settings
from .status import VERSION, Status
from .voice.capture import Capture
from .voice.loop import VoiceLoop

_LOG = logging.getLogger(__name__)
_BUS_RETRY_S = 5.0
_HEALTH_S = 5.0
_SETTLE_S = 3.0
_BOARD_S = 10.0
_RECENT_FOR_PREFETCH = 10


class App:
    """The running service. Raises ``InvalidArguments`` where the settings name models or devices that cannot be."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        catalogue = Catalogue.load()
        store = Store(model_root(settings))
        self._catalogue, self._store = catalogue, store

        self._registry = Registry()
        self._timers = timer.TimerProvider(settings.state_dir(), self._on_timer)

        self._pool = make_pool(settings.memory)
        slots = ModelSlots(settings, catalogue, store, self._pool)
        self._recognizer: Slot[RecognizerHandle] = slots.recognizer()

        self._pipeline: LocalPipeline | None = None
        if (language_model := slots.language_model()) is not None:
            self._pipeline = LocalPipeline(
                language_model,
                commands=self._registry.commands,
                validate=self._registry.validate,
                context=settings.llm.context,
                max_tokens=settings.llm.max_tokens,
                timeout_s=settings.agent.budget_s,
            )
        self._semantic: SemanticMatcher | None = None
        if (embedder := slots.embedder()) is not None:
            self._semantic = SemanticMatcher(
                embedder, commands=self._registry.commands, timeout_s=settings.embedder.timeout_s
            )
        self._understander = Understander(
            self._registry, self._pipeline, settings.agent.language, semantic=self._semantic
        )
        self._agent = Agent(
            self._registry, self._understander, budget_s=settings.agent.budget_s, queue=settings.agent.queue
        )
        self._capture = Capture(
            make_source(settings.audio),
            spotter_factory(settings, catalogue, store),
            refractory_s=settings.wake.refractory_s,
        )
        self._voice = VoiceLoop(
            self._capture,
            endpointer_factory=endpointer_factory(settings),
            transcribe=self._transcribe,
            is_known=self._understander.knows,
            dispatch=self._dispatch,
            publish=self._agent.publish,
            prefetch=self._prefetch,
            new_run_id=self._agent.new_run_id,
            settings=settings.listen,
            transcribe_s=settings.asr.timeout_s,
            think_s=settings.agent.budget_s + 5,
        )
        self._agent.also_cancel(self._voice.cancel)
        self._board = Board()
        self._status = Status(
            capture=self._capture,
            voice=self._voice,
            agent=self._agent,
            registry=self._registry,
            pool=self._pool,
            board=self._board,
        )
        self._bus = BusService(
            settings.bus.address,
            settings.bus.name,
            agent=self._agent,
            voice=self._voice if settings.audio.source != "none" else None,
            registry=self._registry,
            status=self._status,
            version=VERSION,
        )
        self._metrics = Metrics(self._status)
        self._metrics_server: MetricsServer | None = None
        if settings.metrics.listen:
            self._metrics_server = MetricsServer(settings.metrics.listen, self._metrics.text)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """From nothing to ready; no model is loaded. Raises ``Denied`` where another famulus runs on this bus."""
        self._registry.register(clock.capability(), clock.ClockProvider())
        self._registry.register(timer.capability(), self._timers)
        self._registry.on_change(lambda _: self._understander.prepare())
        self._understander.prepare()
        await self._start_bus()
        await self._timers.start()  # after the bus, which tells of the timers that ended meanwhile
        await self._voice.start()
        await self._start_metrics()
        for problem in (await asyncio.to_thread(self._missing_models)).values():
            _LOG.error("%s", problem)
        has_ear = self._settings.audio.source != "none"
        self._background(feed_watchdog((lambda: self._capture.progress) if has_ear else None), "watchdog")
        self._background(self._announce_health(), "health")
        self._background(self._settle(), "settle")
        self._background(self._watch_board(), "board")
        self._status.phase = "ready"
        await notify(f"READY=1\nSTATUS=Listening through {self._capture.health().source}")
        _LOG.info("ready after %.2f s", self._status.uptime_s)

    async def stop(self) -> None:
        """From any state to nothing, within five seconds; a part that fails to stop does not keep the others up."""
        self._status.phase = "stopping"
        await notify("STOPPING=1")
        for task in self._tasks:
            task.cancel()
        parts = [self._voice.stop, self._agent.close, self._bus.stop, self._timers.stop, self._pool.close]
        if self._metrics_server is not None:
            parts.insert(0, self._metrics_server.stop)
        for stop in parts:
            try:
                await stop()
            except Exception:
                _LOG.exception("a part did not stop cleanly")

    async def _start_bus(self) -> None:
        try:
            await self._bus.start()
        except Denied:
            raise
        except FamulusError as error:
            _LOG.error("%s famulus goes on without apps and tries again every %g s.", error.message, _BUS_RETRY_S)
            self._background(self._retry_bus(), "bus retry")

    async def _retry_bus(self) -> None:
        while not self._bus.connected:
            await asyncio.sleep(_BUS_RETRY_S)
            with contextlib.suppress(FamulusError):
                await self._bus.start()

    async def _start_metrics(self) -> None:
        if self._metrics_server is None:
            return
        try:
            await self._metrics_server.start()
        except FamulusError as error:
            _LOG.error("%s famulus goes on without them.", error.message)
        else:
            self._agent.subscribe(self._metrics.on_event)

    async def _watch_board(self) -> None:
        """In a task of its own: a sensor that hangs must hold up nothing else."""
        while True:
            await self._board.sample()
            await asyncio.sleep(_BOARD_S)

    async def _settle(self) -> None:
        """Once all is up and idle: the memory of the start goes back."""
        await asyncio.sleep(_SETTLE_S)
        let_go = await asyncio.to_thread(give_back)
        _LOG.debug("gave back %.1f MB of code", let_go / 1e6)

    async def _announce_health(self) -> None:
        """A microphone that is lost, or a model that is loaded, is seen by those who watch the bus's properties."""
        while True:
            await asyncio.sleep(_HEALTH_S)
            self._bus.refresh()

    async def _transcribe(self, pcm: bytes) -> Transcript:
        timeout_s = self._settings.asr.timeout_s
        async with self._recognizer.lease(priority="voice", timeout_s=timeout_s) as recognizer:
            return await recognizer.transcribe(pcm, timeout_s=timeout_s)

    async def _dispatch(self, utterance: Utterance, run_id: str) -> RunResult:
        run = self._agent.start(utterance, run_id)
        try:
            return await run.wait()
        except asyncio.CancelledError:
            self._agent.cancel(run.id)
            return await run.wait()

    def _prefetch(self) -> None:
        """On wake: what the turn will need. Other models only where they were needed lately: most turns need none."""
        self._recognizer.prefetch()
        lately = {result.decided_by for result in list(self._agent.recent)[-_RECENT_FOR_PREFETCH:]}
        if self._semantic is not None and lately & {"semantic", "model"}:
            self._background(self._semantic.prefetch(), "prefetch the sentence encoder")
        if self._pipeline is not None and "model" in lately:
            self._background(self._pipeline.prefetch(), "prefetch")

    def _missing_models(self) -> dict[str, str]:
        return missing_models(self._settings, self._catalogue, self._store)

    def _on_timer(self, fired: timer.TimerFired) -> None:
        _LOG.info("timer %s ended", fired.id)
        self._bus.timer_fired(fired.id, fired.label, fired.owner)

    def _background(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
