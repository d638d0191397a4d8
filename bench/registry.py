"""The suites of ``python -m famulus.bench``; each registers itself with :func:`suite`."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from .report import Report

Run = Callable[[argparse.Namespace], Awaitable[Report]]
Setup = Callable[[argparse.ArgumentParser], Run]


@dataclass(frozen=True)
class Suite:
    """``setup`` adds its arguments to the parser and returns what runs them."""

    name: str
    help: str
    setup: Setup


SUITES: dict[str, Suite] = {}


def suite(name: str, *, help: str) -> Callable[[Setup], Setup]:
    """Make the decorated ``setup(parser) -> run`` a suite: ``@suite("idle", help="…")``."""

    def register(setup: Setup) -> Setup:
        assert name not in SUITES, f"two suites are named {name}"
        SUITES[name] = Suite(name, help, setup)
        return setup

    return register
