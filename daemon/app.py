"""Builds every part from Settings, starts and stops them in one readable order: the one place that knows all rooms."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from importlib.metadata import version
from typing import Any

from ..capabilities.builtin import clock, timer
from ..capabilities.registry import Registry
from ..core.errors import Denied, FamulusError
from ..engines.handles import RecognizerHandle
from ..engines.memory import mem_available, rss_of
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
        self._started = time.monotonic()
        self._state = "starting"
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
        self._bus = BusService(
            settings.bus.address,
            settings.bus.name,
            agent=self._agent,
            voice=self._voice if settings.audio.source != "none" else None,
            registry=self._registry,
            status=self.status,
            version=version("famulus"),
        )
        self._board = Board()
        self._metrics = Metrics(self.status)
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
        await self._timers.start()
        await self._start_bus()
        await self._voice.start()
        await self._start_metrics()
        for problem in (await asyncio.to_thread(self._missing_models)).values():
            _LOG.error("%s", problem)
        has_ear = self._settings.audio.source != "none"
        self._background(feed_watchdog((lambda: self._capture.progress) if has_ear else None), "watchdog")
        self._background(self._announce_health(), "health")
        self._background(self._settle(), "settle")
        self._background(self._watch_board(), "board")
        self._state = "ready"
        await notify(f"READY=1\nSTATUS=Listening through {self._capture.health().source}")
        _LOG.info("ready after %.2f s", time.monotonic() - self._started)

    async def stop(self) -> None:
        """From any state to nothing, within five seconds."""
        self._state = "stopping"
        await notify("STOPPING=1")
        for task in self._tasks:
            task.cancel()
        if self._metrics_server is not None:
            await self._metrics_server.stop()
        await self._voice.stop()
        await self._agent.close()
        await self._bus.stop()
        await self._timers.stop()
        await self._pool.close()

    def status(self) -> dict[str, Any]:
        """The state of all parts, as JSON values; holds no words that a person said."""
        ear = self._capture.health()
        board = self._board.reading
        available = mem_available()
        return {
            "state": self._state if self._state != "ready" else self._voice.state,
            "mode": "local",
            "version": version("famulus"),
            "uptime_s": round(time.monotonic() - self._started, 1),
            "memory_mb": round(rss_of("self") / 1e6, 1),
            "memory_available_mb": None if available is None else round(available / 1e6),
            "temperature_c": None if board.temperature_c is None else round(board.temperature_c, 1),
            "throttled": list(board.throttled),
            "health": {
                "microphone": ear.state,
                "wake_word": "failed" if ear.wake_error else "ok" if ear.state == "ok" else ear.state,
                "board": board.state,
                **{slot.name: slot.state for slot in self._pool.snapshot()},
            },
            "microphone": {
                "source": ear.source,
                "message": ear.message or ear.wake_error,
                "level_dbfs": None if ear.level_dbfs is None else round(ear.level_dbfs, 1),
                "frame_age_s": None if ear.frame_age_s is None else round(ear.frame_age_s, 2),
                "losses": ear.losses,
            },
            "slots": [
                {
                    "name": slot.name,
                    "state": slot.state,
                    "reason": slot.reason,
                    "memory_mb": round(slot.rss_bytes / 1e6, 1),
                    "expires_in_s": None if slot.expires_in_s is None else round(slot.expires_in_s, 1),
                    "loads": slot.loads,
                    "last_load_s": round(slot.last_load_s, 3),
                    "queue": slot.queue,
                }
                for slot in self._pool.snapshot()
            ],
            "capabilities": {c.name: len(c.commands) for c in self._registry.capabilities()},
            "last_runs": [
                {
                    "run": r.run,
                    "status": r.status,
                    "decided_by": r.decided_by,
                    "ms": round(sum(r.stages_ms.values()), 1),
                    "stages_ms": {stage: round(ms, 1) for stage, ms in {**r.voice_ms, **r.stages_ms}.items()},
                }
                for r in list(self._agent.recent)[-5:]
            ],
        }

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
        self._bus.timer_fired(fired.id, fired.label)

    def _background(self, work: Any, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
