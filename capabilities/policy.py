"""Whether a call may run: the commands that need a person's yes."""

from __future__ import annotations

from ..core.errors import Denied
from .command import Command, Risk
from .texts import TEXTS


def check_allowed(command: Command, language: str = "en") -> None:
    """Raises ``Denied`` for a command whose declared risk needs a person's yes."""
    if command.risk is Risk.DANGEROUS:
        raise Denied(TEXTS.get("needs_a_yes", language, command=command.name))
