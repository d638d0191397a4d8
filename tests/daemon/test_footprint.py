from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from famulus.daemon.footprint import clean_code

SMAPS = """\
559000000000-559000100000 r-xp 00001000 fe:00 42 /usr/bin/python3.11
Size:               1024 kB
Rss:                 512 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
559000200000-559000300000 r-xp 00001000 fe:00 43 /usr/lib/relocated.so
Rss:                 100 kB
Anonymous:             4 kB
559000400000-559000500000 r--p 00001000 fe:00 44 /usr/lib/data.so
Rss:                 100 kB
Anonymous:             0 kB
7fff00000000-7fff00001000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
Anonymous:             0 kB
559000600000-559000700000 r-xp 00001000 fe:00 45 /usr/lib/untouched.so
Rss:                   0 kB
Anonymous:             0 kB
"""


def test_only_code_that_equals_its_file_is_let_go(tmp_path: Path) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(SMAPS)
    assert list(clean_code(smaps)) == [(0x559000000000, 0x100000, 512 * 1024)]
    assert list(clean_code(tmp_path / "absent")) == []


def test_a_process_works_on_after_it_gave_memory_back() -> None:
    code = """
import json, numpy, ssl
from famulus.daemon.footprint import give_back
from famulus.engines.micro import MicroSpotter
spotter = MicroSpotter(["hey_jarvis"])
spotter.process(bytes(32000))
resident = lambda: int(open("/proc/self/statm").read().split()[1])
before = resident()
assert give_back() > 1_000_000
assert resident() < before
spotter.process(bytes(32000))
ssl.create_default_context()
print(json.dumps(numpy.arange(5).sum().item()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout.strip(), done.returncode) == ("10", 0), done.stderr
