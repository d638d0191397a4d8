"""The private bus and the served agent of the tests of the bus."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "bus"))

from bus_rig import bus_directory, client, private_daemon, served

__all__ = ["bus_directory", "client", "private_daemon", "served"]
