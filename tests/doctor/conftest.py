"""The boards that are laid out, for every test here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from boards import board, jetson, pc, pi4, pi5

__all__ = ["board", "jetson", "pc", "pi4", "pi5"]
