"""Exit codes, and how an error is told."""

from __future__ import annotations

import json
import sys

from ...core.errors import FamulusError, InvalidArguments

OK, FAILED, USAGE, NO_DAEMON, NOT_UNDERSTOOD, INTERRUPTED = 0, 1, 2, 3, 4, 130

EXIT_CODES = """\
exit codes:
  0    done
  1    failed; one line on stderr says what to do
  2    wrong usage, or a text that cannot be sent
  3    famulus is not running, or its bus cannot be reached
  4    not understood
  130  interrupted
"""


def tell(error: FamulusError, *, as_json: bool, code: int | None = None) -> int:
    """Print an error, on stderr or as JSON on stdout, and return its exit code."""
    if as_json:
        print(json.dumps({"error": {"code": error.code, "message": error.message}}, ensure_ascii=False))
    else:
        print(f"famulus: {error.message}", file=sys.stderr)
    if code is None:
        code = USAGE if isinstance(error, InvalidArguments) else FAILED
    return code
