"""What an app imports: reach famulus (:func:`connect`), or offer it commands (:class:`App`).

Needs nothing but dbus-fast.
"""

from .agent import Agent, connect
from .app import App
from .command import Say
from .events import Event, Reply
from .schema import Names, Range

__all__ = ["Agent", "App", "Event", "Names", "Range", "Reply", "Say", "connect"]
