"""Settings: can they be used?"""

from __future__ import annotations

from ..settings_files import SYSTEM_FILE, user_file
from .finding import Finding, fault, ok
from .machine import is_there
from .situation import Situation


def settings(situation: Situation) -> list[Finding]:
    """A finding for every problem in the settings."""
    if not situation.problems:
        files = [situation.config] if situation.config else [SYSTEM_FILE, user_file()]
        used = ", ".join(str(file) for file in files if is_there(file))
        return [ok("settings", f"The settings are good ({used or 'all at their defaults'}).")]
    found = []
    for problem in situation.problems:
        if "Permission denied" in problem.message:
            mend = "sudo famulus doctor"
        elif problem.source.startswith("/"):
            mend = f"sudoedit {problem.source}"
        elif problem.source.isupper():
            mend = f"unset {problem.source}"
        else:
            mend = "famulus config check"
        found.append(fault("settings", f"{problem}.", mend))
    return found
