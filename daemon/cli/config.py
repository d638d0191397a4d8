"""``famulus config``: check and show settings. Works without the service."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from .codes import FAILED, OK
from .render import as_json


def add_config_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus config check|show|default``"""
    summary = "check and show the settings"
    parser = commands.add_parser("config", help=summary, description=f"{summary.capitalize()}.")
    actions = parser.add_subparsers(dest="config_command", metavar="COMMAND", required=True)
    _add(actions, "check", _check, "tell every problem in the settings")
    _add(actions, "show", _show, "print the settings in effect")
    _add(actions, "default", _default, "print a famulus.toml with every key and its meaning")


def _add(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    handler: Callable[[argparse.Namespace], int],
    summary: str,
) -> None:
    parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
    if name != "default":
        help_text = "famulus.toml to use instead of the system's and the user's"
        parser.add_argument("--file", type=Path, metavar="FILE", help=help_text)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(handler=handler)


def _check(args: argparse.Namespace) -> int:
    return _with_settings(args, quiet=True)


def _show(args: argparse.Namespace) -> int:
    return _with_settings(args, quiet=False)


def _with_settings(args: argparse.Namespace, *, quiet: bool) -> int:
    from ..settings_files import SettingsError, load_settings, show_toml

    try:
        settings = load_settings(args.file)
    except SettingsError as error:
        if args.json:
            problems = [{"source": p.source, "key": p.key, "message": p.message} for p in error.problems]
            print(as_json({"ok": False, "problems": problems}))
        else:
            print(f"famulus: {error.message}", file=sys.stderr)
        return FAILED
    if quiet:
        print(as_json({"ok": True, "problems": []}) if args.json else "The settings are good.")
    else:
        print(as_json(settings.model_dump(mode="json")) if args.json else show_toml(settings).rstrip())
    return OK


def _default(args: argparse.Namespace) -> int:
    from ..settings import Settings
    from ..settings_files import default_toml

    print(as_json(Settings().model_dump(mode="json")) if args.json else default_toml().rstrip())
    return OK
