"""famulusd: the service. Ends with 0 after SIGTERM, 1 when it cannot start, 78 for unusable settings (EX_CONFIG)."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy is used for tiny arrays only: threads would cost memory

from ..core.errors import FamulusError, InvalidArguments
from .lifecycle import Signals, set_up_logging
from .settings import Settings
from .settings_files import load_settings

_LOG = logging.getLogger(__name__)
_STOP_S = 5.0


def main() -> None:
    """The console script ``famulusd``."""
    parser = argparse.ArgumentParser("famulusd", description="The famulus service: a private voice-and-text agent.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="famulus.toml to use instead of the system's")
    parser.add_argument("--version", action="version", version=f"famulusd {version('famulus')}")
    args = parser.parse_args()
    try:
        settings = load_settings(args.config)
    except InvalidArguments as error:
        print(error.message, file=sys.stderr)  # noqa: T201  (before there is a log)
        sys.exit(os.EX_CONFIG)
    set_up_logging(settings.log.level)
    code = asyncio.new_event_loop().run_until_complete(_serve(settings, args.config))
    logging.shutdown()
    # All that must be kept is kept by now. Threads of sound libraries may still run, and so may a read that hangs:
    # to end the interpreter under them can crash, to wait for them can last.
    os._exit(code)


async def _serve(settings: Settings, config: Path | None) -> int:
    from .app import App

    def reload() -> None:
        try:
            fresh = load_settings(config)
        except InvalidArguments as error:
            _LOG.error("not reloaded: %s", error.message)
            return
        logging.getLogger().setLevel(fresh.log.level)
        _LOG.info("log level is %s; other settings take effect at the next start", fresh.log.level)

    signals = Signals(reload)
    signals.install()
    app: App | None = None
    try:
        app = await asyncio.to_thread(App, settings)  # it reads the catalogue
        started = asyncio.ensure_future(app.start())
        stopped = asyncio.ensure_future(signals.wait())
        await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not started.done():
            started.cancel()
        else:
            await started
            await stopped
    except FamulusError as error:
        _LOG.error("famulus cannot start: %s", error.message)
        return 1
    finally:
        if app is not None:
            try:
                await asyncio.wait_for(app.stop(), _STOP_S)
            except TimeoutError:
                _LOG.error("some parts did not stop within %g s and are left behind", _STOP_S)
    return 0


if __name__ == "__main__":
    main()
