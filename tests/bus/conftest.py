"""The fixtures of bus_rig.py, which the tests of the client share."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bus_rig import bus_directory, client, private_daemon, served

__all__ = ["bus_directory", "client", "private_daemon", "served"]
