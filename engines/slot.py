"""The holder of one on-demand engine: loads it once for all who ask, lends it out, unloads it when idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, Literal, TypeVar

from ..core.errors import Busy, Failed, FamulusError, ModelUnavailable, TimedOut
from .handles import Handle
from .host import Host
from .pool import Pool, SlotStatus

_LOG = logging.getLogger(__name__)

Priority = Literal["voice", "background"]
HandleT = TypeVar("HandleT", bound=Handle)

UNLOAD_GRACE_S = 3.0  # an engine may still be writing its prompt state to a slow card
SHUTDOWN_GRACE_S = 0.8
HOLD_S = 15.0  # how long an engine that was fetched ahead waits for its first lease
FAILURES = 3
FAILURE_WINDOW_S = 60.0
MAX_BACKOFF_S = 60.0


class _Waiter(Generic[HandleT]):
    def __init__(self, priority: Priority) -> None:
        self.priority = priority
        self.lease: asyncio.Future[HandleT] = asyncio.get_running_loop().create_future()

    def refuse(self, error: FamulusError) -> None:
        if not self.lease.done():
            self.lease.set_exception(error)


class Slot(Generic[HandleT]):
    """Lends one engine to one lease at a time.

    ``open_host`` makes a host for each load and ``handle`` wraps it for the caller. ``need_bytes`` is what a load
    takes (file, overhead, context) until the first load has been measured. ``keep_alive_s`` is how long an idle
    engine stays: 0 unloads it when the lease ends, -1 never. ``queue`` bounds the leases that wait. After three
    failed loads within a minute no load is tried for ``backoff_s`` seconds, doubled by each further failure.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Host], HandleT],
        open_host: Callable[[], Host],
        *,
        pool: Pool,
        need_bytes: int,
        keep_alive_s: float = 300.0,
        queue: int = 8,
        load_timeout_s: float = 60.0,
        backoff_s: float = 5.0,
        hold_s: float = HOLD_S,
    ) -> None:
        self.name = name
        self._handle = handle
        self._open_host = open_host
        self._pool = pool
        self._need_bytes = need_bytes
        self._measured_bytes = 0
        self._keep_alive_s = keep_alive_s
        self._queue = queue
        self._load_timeout_s = load_timeout_s
        self._backoff_s = backoff_s
        self._hold_s = hold_s
        self._host: Host | None = None
        self._waiting: list[_Waiter[HandleT]] = []
        self._leased: HandleT | None = None
        self._loading: asyncio.Task[None] | None = None
        self._unloading: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._failures: list[float] = []
        self._retry_at = 0.0
        self._reason = ""
        self._failed = False
        self._closed = False
        self._load_again = False  # prefetch came while the engine was being unloaded
        self._used_at = 0.0
        self._loads = 0
        self._last_load_s = 0.0
        pool.join(self)

    @property
    def state(self) -> str:
        """unloaded, loading, ready, busy, unloading or failed."""
        if self._unloading or (self._host and not self._host.alive):
            return "unloading"
        if self._loading:
            return "loading"
        if self._host is not None:
            return "busy" if self._leased or self._host.settling else "ready"
        return "failed" if self._failed else "unloaded"

    @property
    def need_bytes(self) -> int:
        """What a load takes: the most that was ever measured, before that the estimate."""
        return self._measured_bytes or self._need_bytes

    @property
    def rss_bytes(self) -> int:
        """What the engine takes now; 0 when it is not loaded."""
        return self._host.rss_bytes() if self._host else 0

    @property
    def urgent(self) -> bool:
        """Whether voice waits for it."""
        return any(waiter.priority == "voice" for waiter in self._waiting)

    @property
    def idle_since(self) -> float | None:
        """Monotonic time of the last use while it could be unloaded, else None."""
        if self._host is None or self._leased or self._waiting or self._unloading:
            return None
        return self._used_at

    def snapshot(self) -> SlotStatus:
        """What can be seen of the slot now."""
        expires_in_s = max(0.0, self._timer.when() - asyncio.get_running_loop().time()) if self._timer else None
        return SlotStatus(
            name=self.name,
            state=self.state,
            reason=self._reason,
            rss_bytes=self.rss_bytes,
            expires_in_s=expires_in_s,
            loads=self._loads,
            last_load_s=self._last_load_s,
            pid=self._host.pid if self._host else None,
            queue=len(self._waiting),
        )

    @asynccontextmanager
    async def lease(self, *, priority: Priority = "background", timeout_s: float = 60.0) -> AsyncIterator[HandleT]:
        """Borrow the engine, loading it if need be; voice goes before background.

        ``timeout_s`` bounds the wait for the load and the turn. Raises ``Busy`` when too many wait (voice takes the
        place of the last in the background instead), ``TimedOut``, and ``ModelUnavailable`` with the reason.
        """
        handle = await self._acquire(priority, timeout_s)
        try:
            yield handle
        finally:
            self._release(handle)

    def prefetch(self) -> None:
        """Begin to load in the background; never raises, the reason of a failure is in the state."""
        if self._closed or self._backing_off():
            return
        self._used_at = time.monotonic()
        if self.state == "ready":
            self._rest(at_least_s=self._hold_s)
        elif self._unloading:
            self._load_again = True
        elif self._host is None and not self._loading:
            self._begin_load()

    async def unload(self) -> None:
        """Give the memory back now; raises ``Busy`` while somebody uses it or waits for it."""
        if self._leased or self._waiting:
            raise Busy(f"{self.name} is in use; unload it when it is idle.")
        if self._loading:
            await self._stop_loading()
        if self._host and not self._unloading:
            self._begin_unload("it was unloaded on request")
        if self._unloading:
            await asyncio.shield(self._unloading)

    async def evict(self) -> None:
        """Unload if idle, because another model needs the room; returns when it is gone."""
        if self.idle_since is not None:
            self._begin_unload("it made room for another model")
        if self._unloading:
            await asyncio.shield(self._unloading)
        elif self._host and not self._host.alive:
            await self._host.kill()

    async def close(self) -> None:
        """End the engine whatever it does; whoever waits gets ``ModelUnavailable``."""
        self._closed = True
        self._refuse_all(ModelUnavailable(f"{self.name} is being shut down; ask again after the restart."))
        await self._stop_loading()
        if self._host and not self._unloading:
            self._begin_unload("it was shut down")
        if (task := self._unloading) and (host := self._host):
            await asyncio.wait([task], timeout=SHUTDOWN_GRACE_S)  # one begun before would wait longer
            await host.kill()
            await asyncio.wait([task])

    async def _acquire(self, priority: Priority, timeout_s: float) -> HandleT:
        if self._closed:
            raise ModelUnavailable(f"{self.name} is being shut down; ask again after the restart.")
        if wait_s := self._backing_off():
            raise ModelUnavailable(f"{self.name} fails to load ({self._reason}); it is tried again in {wait_s:.0f} s.")
        waiter = self._enqueue(priority)
        self._pump()
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter.lease
        except TimeoutError as error:
            self._drop(waiter)
            if isinstance(error, FamulusError):
                raise
            raise TimedOut(f"{self.name} was not free within {timeout_s:g} s ({self.state}); try again.") from None
        except BaseException:
            self._drop(waiter)
            raise

    def _enqueue(self, priority: Priority) -> _Waiter[HandleT]:
        free = self._leased is None and not self._waiting
        if len(self._waiting) >= self._queue and not free:
            busy = Busy(f"{len(self._waiting)} requests already wait for {self.name}; try again shortly.")
            last = next((waiter for waiter in reversed(self._waiting) if waiter.priority == "background"), None)
            if priority != "voice" or last is None:
                raise busy
            self._waiting.remove(last)
            last.refuse(busy)
        waiter: _Waiter[HandleT] = _Waiter(priority)
        self._waiting.append(waiter)
        return waiter

    def _drop(self, waiter: _Waiter[HandleT]) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        elif waiter.lease.done() and not waiter.lease.cancelled() and not waiter.lease.exception():
            self._release(waiter.lease.result())  # it was granted as its caller gave up

    def _release(self, handle: HandleT) -> None:
        handle.detach()
        if self._leased is handle:
            self._leased = None
            self._used_at = time.monotonic()
            self._measure()
            self._pump()

    def _pump(self) -> None:
        """Take the next step that the present state allows."""
        # A cancelled caller leaves its place only when its task runs again.
        self._waiting = [waiter for waiter in self._waiting if not waiter.lease.done()]
        if self._host and self._host.exited.is_set() and not self._unloading:
            self._lost(self._host)
        if self._leased or self._loading or self._unloading:
            return
        if self._host is None:
            if self._waiting:
                self._begin_load()
            return
        if self._host.settling or not self._host.alive:
            return  # the host calls back when it has settled or is gone
        if not self._waiting:
            self._rest()
            return
        self._stop_timer()
        waiter = next((waiter for waiter in self._waiting if waiter.priority == "voice"), self._waiting[0])
        self._waiting.remove(waiter)
        self._leased = self._handle(self._host)
        waiter.lease.set_result(self._leased)

    def _rest(self, *, at_least_s: float = 0.0) -> None:
        """Nobody uses the engine: start the clock that unloads it."""
        self._stop_timer()
        if self._keep_alive_s < 0:
            return
        delay = max(self._keep_alive_s, at_least_s)
        if delay:
            self._timer = asyncio.get_running_loop().call_later(delay, self._expire)
        else:
            self._expire()

    def _expire(self) -> None:
        self._timer = None
        if self.idle_since is not None:
            self._begin_unload("it was idle")

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _begin_load(self) -> None:
        self._loading = asyncio.create_task(self._load(), name=f"load {self.name}")
        self._loading.add_done_callback(self._load_ended)

    def _load_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._loading = None
            self._pump()

    async def _load(self) -> None:
        host: Host | None = None
        try:
            async with self._pool.load_turn(self):
                host = await asyncio.to_thread(self._open_host)  # it looks for files
                started = time.monotonic()
                try:
                    await host.start(timeout_s=self._load_timeout_s)
                except BaseException:
                    await host.kill()  # before the next load has its turn
                    raise
        except FamulusError as error:
            self._loading = None
            self._load_failed(error, counts=host is not None)
        except Exception as error:
            _LOG.exception("The load of %s broke", self.name)
            self._loading = None
            self._load_failed(Failed(f"The load of {self.name} broke with {type(error).__name__}."), counts=True)
        else:
            self._loading = None
            self._loaded(host, time.monotonic() - started)

    def _loaded(self, host: Host, load_s: float) -> None:
        self._host = host
        self._loads += 1
        self._last_load_s = load_s
        self._used_at = time.monotonic()
        self._failures.clear()
        self._failed, self._reason = False, ""
        self._measure()
        host.on_change = self._pump
        _LOG.info("%s is loaded: %.2f s, %.0f MB", self.name, load_s, self.rss_bytes / 1e6, extra={"SLOT": self.name})
        if self._waiting or host.exited.is_set():
            self._pump()
        else:
            self._rest(at_least_s=self._hold_s)

    def _load_failed(self, error: FamulusError, *, counts: bool) -> None:
        now = time.monotonic()
        self._failed, self._reason = True, error.message
        if counts:  # a refusal for want of memory ends by itself and needs no back-off
            self._failures = [at for at in self._failures if now - at < FAILURE_WINDOW_S] + [now]
            if (excess := len(self._failures) - FAILURES) >= 0:
                self._retry_at = now + min(self._backoff_s * 2**excess, MAX_BACKOFF_S)
        _LOG.warning("%s is not loaded: %s", self.name, error.message, extra={"SLOT": self.name})
        self._refuse_all(error)

    def _refuse_all(self, error: FamulusError) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.refuse(type(error)(error.message))

    def _backing_off(self) -> float:
        """Seconds until a load may be tried again."""
        return max(0.0, self._retry_at - time.monotonic())

    async def _stop_loading(self) -> None:
        if task := self._loading:
            task.cancel()
            await asyncio.wait([task])

    def _begin_unload(self, reason: str) -> None:
        assert self._host is not None
        self._stop_timer()
        self._unloading = asyncio.create_task(self._unload(self._host, reason), name=f"unload {self.name}")

    async def _unload(self, host: Host, reason: str) -> None:
        await host.close(grace_s=SHUTDOWN_GRACE_S if self._closed else UNLOAD_GRACE_S)
        self._host = None
        self._unloading = None
        self._failed, self._reason = False, reason
        _LOG.info("%s is unloaded: %s", self.name, reason, extra={"SLOT": self.name})
        if self._closed:
            return
        if self._load_again:
            self._load_again = False
            self._begin_load()
        self._pump()

    def _lost(self, host: Host) -> None:
        self._stop_timer()
        self._host = None
        self._failed, self._reason = True, host.exit_reason
        _LOG.warning("The engine of %s is gone: %s", self.name, host.exit_reason, extra={"SLOT": self.name})

    def _measure(self) -> None:
        self._measured_bytes = max(self._measured_bytes, self.rss_bytes)
