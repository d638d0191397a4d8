"""The daemon's own message catalogue."""

from __future__ import annotations

from pathlib import Path

from ..core.texts import Texts

TEXTS = Texts(Path(__file__).with_name("texts.toml"))
