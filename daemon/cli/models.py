"""``famulus models``: list, fetch, verify and find model files. Works without the daemon.

The model room is imported by the handlers, so that other commands do not pay for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import FamulusError
from .codes import FAILED, INTERRUPTED, OK, tell

if TYPE_CHECKING:
    from ...models.catalogue import Catalogue, ModelEntry
    from ...models.store import Store

_EPILOG = """\
The folder of all models is --root, else storage.models of the settings, else $FAMULUS_MODELS, else
/var/lib/famulus/models where the service keeps them, else ~/.local/share/famulus/models.
"""


def add_models_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``models`` and its commands; each sets ``handler``, which takes the arguments and returns an exit status."""
    parser = subparsers.add_parser(
        "models",
        help="list, fetch, verify and find model files",
        description="List, fetch, verify and find model files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="models_command", metavar="COMMAND", required=True)
    _add(commands, "list", _list, "show every model with its role, state, size and licence")
    pull = _add(commands, "pull", _pull, "fetch models; without ID, those that a new installation needs")
    pull.add_argument("ids", nargs="*", metavar="ID", help="a model id, as `famulus models list` shows it")
    verify = _add(commands, "verify", _verify, "read every byte and compare it with the catalogue")
    verify.add_argument("ids", nargs="*", metavar="ID", help="a model id; without one, all that are here")
    path = _add(commands, "path", _path, "print the folder of a model")
    path.add_argument("ids", nargs=1, metavar="ID", help="a model id")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    handler: Callable[[argparse.Namespace], int],
    summary: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--root", default="", metavar="DIR", help="the folder of all models")
    parser.add_argument("--catalogue", type=Path, metavar="FILE", help="another catalogue than the bundled one")
    parser.set_defaults(handler=lambda args: _guarded(handler, args))
    return parser


def _guarded(handler: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        return handler(args)
    except FamulusError as error:
        return tell(error, as_json=args.json)
    except KeyboardInterrupt:
        print("famulus: interrupted; nothing half-written was left.", file=sys.stderr)
        return INTERRUPTED


def _open(args: argparse.Namespace) -> tuple[Catalogue, Store]:
    from ...models.catalogue import Catalogue
    from ...models.store import Store, default_root
    from ..settings_files import load_settings

    return Catalogue.load(args.catalogue), Store(default_root(args.root or load_settings().storage.models))


def _list(args: argparse.Namespace) -> int:
    from ...models.progress import human_size

    catalogue, store = _open(args)
    rows = [(entry, store.state(entry)) for entry in catalogue.entries]
    if args.json:
        models = [_facts(entry) | {"state": state} for entry, state in rows]
        _print_json({"root": str(store.root), "models": models})
        return OK
    table = [("ID", "FOR", "STATE", "SIZE", "LICENCE", "WHAT")]
    for entry, state in rows:
        size = human_size(entry.size) if entry.files else "-"
        mark = "*" if entry.licence_note else ""
        table.append((entry.id, entry.role, state, size, entry.licence + mark, entry.title))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
    for entry, _ in rows:
        if entry.licence_note:
            print(f"* {entry.id}: {entry.licence_note}")
    print(f"Folder: {store.root}")
    return OK


def _pull(args: argparse.Namespace) -> int:
    from ...models.progress import human_size, progress_for

    catalogue, store = _open(args)
    entries = [catalogue.entry(model_id) for model_id in args.ids] or list(catalogue.defaults)
    progress = progress_for(sys.stderr)
    fetched = {}
    for entry in entries:
        if entry.licence_note and store.state(entry) != "present":
            progress.say(f"{entry.id}: {entry.licence_note}")
        fetched[entry.id] = store.pull(entry, progress)
        if not args.json:
            what = f"fetched {human_size(entry.size)}" if fetched[entry.id] else "already here"
            print(f"{entry.id}: {what}, in {store.folder(entry)}", flush=True)
    if args.json:
        models = [{"id": entry.id, "fetched": fetched[entry.id], "path": str(store.folder(entry))} for entry in entries]
        _print_json({"root": str(store.root), "models": models})
    return OK


def _verify(args: argparse.Namespace) -> int:
    catalogue, store = _open(args)
    entries = [catalogue.entry(model_id) for model_id in args.ids]
    entries = entries or [entry for entry in catalogue.entries if store.state(entry) != "missing"]
    results = {}
    for entry in entries:
        states = store.verify(entry)
        bad = {name: state for name, state in states.items() if state != "present"}
        whole = not bad and store.state(entry) == "present"
        results[entry.id] = {"whole": whole, "files": states}
        if args.json:
            continue
        if whole:
            print(f"{entry.id}: whole" if states else f"{entry.id}: part of an installed package")
        else:
            named = ", ".join(f"{name} {state}" for name, state in bad.items()) or "missing"
            print(f"{entry.id}: {named}; run: famulus models pull {entry.id}")
    if args.json:
        _print_json({"root": str(store.root), "models": results})
    elif not entries:
        print("No model is here yet; run: famulus models pull")
    return OK if all(result["whole"] for result in results.values()) else FAILED


def _path(args: argparse.Namespace) -> int:
    catalogue, store = _open(args)
    entry = catalogue.entry(args.ids[0])
    files = store.files(entry)
    if args.json:
        named = {name: str(path) for name, path in files.items()}
        _print_json({"id": entry.id, "path": str(store.folder(entry)), "files": named})
    else:
        print(store.folder(entry))
    return OK


def _facts(entry: ModelEntry) -> dict[str, Any]:
    facts = entry.model_dump(include={"id", "title", "role", "engine", "default", "licence", "licence_note"})
    return facts | {"size": entry.size, "source": entry.source.kind}


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
