"""The writing half of a bus connection: a full socket is waited for, not taken for a lost one."""

from __future__ import annotations

import asyncio

from dbus_fast import Message
from dbus_fast.aio import MessageBus
from dbus_fast.aio.message_bus import _MessageWriter

MAX_QUEUED = 50_000
_PER_TURN = 256
"""Messages written before other work of the loop gets its turn."""


class PatientWriter(_MessageWriter):
    """Replaces dbus-fast's writer, which ends the connection at the first EAGAIN (dbus-fast 5.2).

    About 280 small messages in one turn of the loop fill a Unix socket, so a stream of tokens, or a caller with
    enough calls at once, would throw the program off the bus. Messages keep their order. A bus that lets
    ``MAX_QUEUED`` messages pile up does not read any more: that connection is ended. File descriptors are not sent.
    """

    _waiting = False
    """Whether the loop tells when the socket takes more."""

    def schedule_write(self, msg: Message | None = None, future: asyncio.Future[None] | None = None) -> None:
        """Queue ``msg`` and write what the socket takes now. After the connection's end, messages are dropped."""
        if self.bus._disconnected:
            # The number of the closed descriptor may by now belong to another connection of this process.
            if future is not None:
                future.cancel()
            return
        was_empty = not self.messages and self.buf is None
        if msg is not None:
            self.buffer_message(msg, future)
        if len(self.messages) > MAX_QUEUED:
            self._end(ConnectionError("the bus does not read"))
        elif was_empty and self.bus.unique_name:
            self.write_callback()

    def write_callback(self, remove_writer: bool = True) -> None:
        """Write until all is written, the socket is full, or other work should have its turn."""
        assert self.sock is not None
        assert self.fd is not None
        try:
            for _ in range(_PER_TURN):
                if self.buf is None and not self._take_next():
                    if self._waiting:
                        self._waiting = False
                        self.loop.remove_writer(self.fd)
                    return
                assert self.buf is not None
                self.offset += self.sock.send(self.buf[self.offset :])
                if self.offset == len(self.buf):
                    self.buf = None
                    if self.fut is not None and not self.fut.done():
                        self.fut.set_result(None)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(error)
            return
        if not self._waiting:
            self._waiting = True
            self.loop.add_writer(self.fd, self.write_callback)

    def _take_next(self) -> bool:
        if not self.messages:
            return False
        data, _, self.fut = self.messages.popleft()
        self.buf = memoryview(data)
        self.offset = 0
        return True

    def _end(self, error: OSError) -> None:
        waiting = [self.fut, *(future for _, _, future in self.messages)]
        self.messages.clear()
        self.buf = None
        for future in waiting:
            if future is not None:
                future.cancel()
        self.bus._finalize(error)


def install(bus: MessageBus) -> None:
    """Give a connected bus, over which nothing has been sent yet, the patient writer."""
    bus._writer = PatientWriter(bus)
