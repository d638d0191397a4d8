"""The errors a person or an app can meet: one class each, one stable code, one sentence that says what to do."""

from __future__ import annotations

from typing import ClassVar


class FamulusError(Exception):
    """Base of every error that crosses a room's door.

    ``code`` is stable: it travels over D-Bus (`org.famulus.Error.<Code>`), between a worker and its
    slot, and in JSON output. ``message`` is one plain sentence that holds no utterance text.
    """

    code: ClassVar[str] = "failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def dbus_name(self) -> str:
        """The D-Bus error name, for example ``org.famulus.Error.InvalidArguments``."""
        return "org.famulus.Error." + "".join(part.capitalize() for part in self.code.split("_"))


class Failed(FamulusError):
    """Something broke that no other class names."""


class Busy(FamulusError):
    """A bounded queue is full; try again shortly."""

    code = "busy"


class Denied(FamulusError):
    """The caller may not do this, or a person said no."""

    code = "denied"


class NotFound(FamulusError):
    """No such run, command, model or device."""

    code = "not_found"


class InvalidArguments(FamulusError, ValueError):
    """The input is not of the form asked for."""

    code = "invalid_arguments"


class TimedOut(FamulusError, TimeoutError):
    """A deadline passed."""

    code = "timed_out"


class Cancelled(FamulusError):
    """A person, or the app that asked, stopped it."""

    code = "cancelled"


class ModelUnavailable(FamulusError):
    """A model is missing, does not fit in memory, or its worker died."""

    code = "model_unavailable"


class RemoteUnavailable(FamulusError):
    """The remote endpoint cannot be used now."""

    code = "remote_unavailable"


class PrivacyBlocked(FamulusError):
    """The words may not leave this device."""

    code = "privacy_blocked"


_CLASSES: tuple[type[FamulusError], ...] = (
    Failed,
    Busy,
    Denied,
    NotFound,
    InvalidArguments,
    TimedOut,
    Cancelled,
    ModelUnavailable,
    RemoteUnavailable,
    PrivacyBlocked,
)
_BY_CODE = {cls.code: cls for cls in _CLASSES}


def error_from_code(code: str, message: str) -> FamulusError:
    """Rebuild an error that came over a wire; an unknown code becomes :class:`Failed`."""
    return _BY_CODE.get(code, Failed)(message)


def error_from_dbus_name(name: str, message: str) -> FamulusError:
    """Rebuild an error from its D-Bus name; a foreign name becomes :class:`Failed`."""
    for cls in _CLASSES:
        if cls(message).dbus_name == name:
            return cls(message)
    return Failed(message)
