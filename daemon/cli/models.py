"""``famulus models``: list, fetch, verify, choose and optimise model files. Works without the daemon.

The model room is imported by the handlers, so that other commands do not pay for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ...core.errors import Denied, FamulusError
from .codes import FAILED, INTERRUPTED, OK, tell

if TYPE_CHECKING:
    from ...models.catalogue import Catalogue, ModelEntry
    from ...models.store import Store
    from ..settings import Settings

_EPILOG = """\
The folder of all models is --root, else storage.models of the settings, else $FAMULUS_MODELS, else
/var/lib/famulus/models where the service keeps them, else ~/.local/share/famulus/models.
models.mirror of the settings (or $FAMULUS_MODELS__MIRROR) takes the place of scheme and host in the addresses;
{host} in it becomes that host. The proxy variables and SSL_CERT_FILE hold as usual.
"""


def add_models_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``models`` and its commands; each sets ``handler``, which takes the arguments and returns an exit status."""
    parser = subparsers.add_parser(
        "models",
        help="list, fetch, verify, choose and optimise model files",
        description="List, fetch, verify, choose and optimise model files.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="models_command", metavar="COMMAND", required=True)
    _add(commands, "list", _list, "show every model with its role, state, size and licence")
    recommend = _add(commands, "recommend", _recommend, "say which models fit this board, and with what settings")
    recommend.add_argument("--language", default="", metavar="CODE", help="only what understands it, such as zh")
    pull = _add(commands, "pull", _pull, "fetch models; without ID, those that a new installation needs")
    pull.add_argument("ids", nargs="*", metavar="ID", help="a model id, as `famulus models list` shows it")
    pull.add_argument(
        "--repin", action="store_true", help="fetch files whose hash the catalogue does not tell again, and pin that"
    )
    verify = _add(commands, "verify", _verify, "read every byte and compare it with the catalogue")
    verify.add_argument("ids", nargs="*", metavar="ID", help="a model id; without one, all that are here")
    optimise = _add(commands, "optimise", _optimise, "make a GGUF model faster on this CPU (Q4_0), where that helps")
    optimise.add_argument("ids", nargs=1, metavar="ID|PATH", help="a model id, or the path of a .gguf file")
    optimise.add_argument("--threads", type=int, default=0, metavar="N", help="default: one fewer than the cores")
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
    except PermissionError as error:
        reason = f"{error.filename} may not be read by you; use sudo, or choose another folder with --root."
        return tell(Denied(reason), as_json=args.json)
    except KeyboardInterrupt:
        print("famulus: interrupted; a pull goes on from here the next time.", file=sys.stderr)
        return INTERRUPTED


def _open(args: argparse.Namespace) -> tuple[Settings, Catalogue, Store]:
    """The settings, the catalogue with the models made here, and the store."""
    from ...models.catalogue import Catalogue
    from ...models.fetch import Fetcher
    from ...models.store import Store, default_root
    from ..settings_files import load_settings

    settings = load_settings()
    store = Store(default_root(args.root or settings.storage.models), Fetcher(settings.models.mirror))
    return settings, Catalogue.load(args.catalogue).with_entries(store.local_entries()), store


def _is_supported(entry: ModelEntry) -> bool:
    """Whether this version has the engine that loads it."""
    from ...engines.kinds import ENGINES
    from ..settings import Wake

    wake_engines = get_args(Wake.model_fields["engine"].annotation)
    return entry.engine in (*ENGINES, *wake_engines, "silero")


def _list(args: argparse.Namespace) -> int:
    from ...models.own import is_path, own_entry

    settings, catalogue, store = _open(args)
    entries = list(catalogue.entries)
    if own := is_path(settings.llm.model):
        entries.append(own_entry(settings.llm.model))
    rows = [(entry, store.state(entry)) for entry in entries]
    if args.json:
        models = [_facts(entry, store) | {"state": state} for entry, state in rows]
        if own:
            models[-1] |= {"id": settings.llm.model, "source": "own file"}
        _print_json({"root": str(store.root), "models": models})
        return OK
    table = [("ID", "FOR", "STATE", "SIZE", "LICENCE", "WHAT")]
    for entry, state in rows:
        licence = entry.licence + ("*" if entry.licence_note else "")
        what = entry.title if _is_supported(entry) else f"{entry.title} (not supported by this version)"
        table.append((entry.id, entry.role, state, _size(entry, store), licence, what))
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
    for line in _remarks([entry for entry, _ in rows], store):
        print(line)
    print(f"Folder: {store.root}")
    return OK


def _size(entry: ModelEntry, store: Store) -> str:
    from ...models.progress import human_size

    if not entry.files:
        return "-"
    own_file = entry.source.kind == "local"
    return ("" if own_file or store.hashes(entry) != "unknown" else "~") + human_size(entry.size)


def _remarks(entries: list[ModelEntry], store: Store) -> Iterator[str]:
    for entry in entries:
        if entry.licence_note:
            yield f"* {entry.id}: {entry.licence_note}"
        if entry.note:
            yield f"  {entry.id}: {entry.note}"
        if _is_untold(entry, store):
            yield f"~ {entry.id}: nobody told its hash yet; the first pull pins what it gets."
        elif not entry.has_all_hashes and store.hashes(entry) == "pinned":
            yield f"  {entry.id}: held to the hash that was pinned at the first pull."


def _is_untold(entry: ModelEntry, store: Store) -> bool:
    """Whether nothing tells what a pull must bring; an archive's own hash does."""
    return entry.source.kind == "url" and store.hashes(entry) == "unknown"


def _pull(args: argparse.Namespace) -> int:
    from ...models.progress import human_size, progress_for

    _, catalogue, store = _open(args)
    entries = [catalogue.entry(model_id) for model_id in args.ids] or list(catalogue.defaults)
    progress = progress_for(sys.stderr)
    fetched = {}
    for entry in entries:
        if store.state(entry) != "present":
            if entry.licence_note:
                progress.say(f"{entry.id}: {entry.licence_note}")
            if not _is_supported(entry):
                progress.say(f"{entry.id}: this version of famulus cannot load it; it is fetched all the same.")
            if _is_untold(entry, store):
                progress.say(f"{entry.id}: nobody told its hash yet; what comes now is pinned.")
        fetched[entry.id] = store.pull(entry, progress, repin=args.repin)
        if not args.json:
            what = f"fetched {human_size(entry.size)}" if fetched[entry.id] else "already here"
            print(f"{entry.id}: {what}, in {store.folder(entry)}", flush=True)
    if args.json:
        models = [
            {
                "id": entry.id,
                "fetched": fetched[entry.id],
                "path": str(store.folder(entry)),
                "hashes": store.hashes(entry),
            }
            for entry in entries
        ]
        _print_json({"root": str(store.root), "models": models})
    return OK


def _verify(args: argparse.Namespace) -> int:
    _, catalogue, store = _open(args)
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
        if whole and store.hashes(entry) == "unknown":
            print(
                f"{entry.id}: here, and nobody told its hash; to pin what is here, run: famulus models pull {entry.id}"
            )
        elif whole:
            print(f"{entry.id}: whole" if states else f"{entry.id}: part of an installed package")
        else:
            named = ", ".join(f"{name} {state}" for name, state in bad.items()) or "missing"
            print(f"{entry.id}: {named}; {store.remedy(entry)}")
    if args.json:
        _print_json({"root": str(store.root), "models": results})
    elif not entries:
        print("No model is here yet; run: famulus models pull")
    return OK if all(result["whole"] for result in results.values()) else FAILED


def _recommend(args: argparse.Namespace) -> int:
    from ...models.advice import advise
    from ...models.board import read_board
    from ..models import need_bytes
    from .models_advice import as_facts, as_text

    _, catalogue, store = _open(args)
    advice = advise(
        read_board(store.root),
        catalogue.entries,
        need=need_bytes,
        supported=_is_supported,
        present=lambda entry: store.state(entry) == "present",
        language=args.language,
    )
    if args.json:
        _print_json({"root": str(store.root)} | as_facts(advice))
    else:
        print(as_text(advice))
    return OK if "asr" in advice.choices or "llm" in advice.choices else FAILED


def _optimise(args: argparse.Namespace) -> int:
    from ...models.optimise import optimise
    from ...models.own import find_entry
    from ...models.progress import human_size, progress_for

    _, catalogue, store = _open(args)
    named = args.ids[0]
    if Path(named).suffix == ".gguf":  # a person in a shell may be in the folder of the file
        named = str(Path(named).absolute())
    entry = find_entry(named, catalogue, store)
    made, new = optimise(entry, store, progress_for(sys.stderr), threads=args.threads)
    if args.json:
        facts = {
            "id": made.id,
            "made": new,
            "path": str(store.folder(made)),
            "size": made.size,
            "size_before": entry.size,
        }
        _print_json(facts)
    else:
        what = f"{human_size(made.size)} instead of {human_size(entry.size)}" if new else "already made"
        print(f"{made.id}: {what}, in {store.folder(made)}")
        print(f'To use it, set in famulus.toml:\n\n[llm]\nmodel = "{made.id}"')
    return OK


def _path(args: argparse.Namespace) -> int:
    _, catalogue, store = _open(args)
    entry = catalogue.entry(args.ids[0])
    files = store.files(entry)
    if args.json:
        named = {name: str(path) for name, path in files.items()}
        _print_json({"id": entry.id, "path": str(store.folder(entry)), "files": named})
    else:
        print(store.folder(entry))
    return OK


def _facts(entry: ModelEntry, store: Store) -> dict[str, Any]:
    told = {"id", "title", "role", "engine", "default", "licence", "licence_note", "note", "languages"}
    more = {"size": entry.size, "source": entry.source.kind, "hashes": store.hashes(entry)}
    return entry.model_dump(include=told) | more | {"supported": _is_supported(entry)}


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
