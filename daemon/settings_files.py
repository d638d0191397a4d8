"""How famulus.toml, famulus.d/*.toml and FAMULUS_* become Settings, with every problem told at once."""

from __future__ import annotations

import contextlib
import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from ..core.errors import InvalidArguments
from .settings import Settings

SYSTEM_FILE = Path("/etc/famulus/famulus.toml")
ENVIRONMENT_PREFIX = "FAMULUS_"


@dataclass(frozen=True)
class Problem:
    """One thing wrong in the settings: where, which key, and what to do."""

    source: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.source}: {self.key}: {self.message}" if self.key else f"{self.source}: {self.message}"


class SettingsError(InvalidArguments):
    """The settings cannot be used; ``problems`` holds every reason."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("The settings cannot be used:\n" + "\n".join(f"  {problem}" for problem in problems))
        self.problems = tuple(problems)


def user_file() -> Path:
    """famulus.toml of the current user."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "famulus" / "famulus.toml"


def load_settings(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from a file (default: the system's, then the user's), the ``famulus.d`` beside it, the environment.

    Later ones win key by key. Raises :class:`SettingsError`; a file that was named must exist.
    """
    environ = os.environ if environ is None else environ
    problems: list[Problem] = []
    merged: dict[str, dict[str, Any]] = {}
    origin: dict[tuple[str, str], str] = {}
    if file is not None and not _is_there(file):
        raise SettingsError([Problem(str(file), "", "there is no such file; create it or name another one")])
    for path in _files(file):
        for section, key, value in _read(path, problems):
            merged.setdefault(section, {})[key] = value
            origin[section, key] = str(path)
    for variable, section, key, value in _from_environment(environ, problems):
        merged.setdefault(section, {})[key] = value
        origin[section, key] = variable
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as err:
        for detail in err.errors():
            where = [str(part) for part in detail["loc"][:2]]
            source = origin.get((where[0], where[1]) if len(where) > 1 else (where[0], ""), "settings")
            problems.append(Problem(source, ".".join(where), _message(detail["msg"])))
        settings = Settings()
    if problems:
        raise SettingsError(problems)
    return settings


def default_toml() -> str:
    """A famulus.toml with every key at its default, commented out, with its meaning."""
    lines = ["# famulus.toml: every key with its default. Remove the # to change one.", ""]
    for name, field in Settings.model_fields.items():
        section = _section(name)
        lines += [f"# {(section.__doc__ or '').strip()}", f"[{name}]"]
        for key, item in section.model_fields.items():
            lines += [f"# {item.description}", f"#{key} = {_toml(getattr(field.default, key))}"]
        lines.append("")
    return "\n".join(lines)


def show_toml(settings: Settings) -> str:
    """The settings in effect, as TOML."""
    lines: list[str] = []
    for name in Settings.model_fields:
        section = getattr(settings, name)
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml(getattr(section, key))}" for key in type(section).model_fields]
        lines.append("")
    return "\n".join(lines)


def _files(file: Path | None) -> Iterator[Path]:
    own = user_file()
    for base in [file] if file else [SYSTEM_FILE, own]:
        if _is_there(base, if_hidden=base is not own):
            yield base
        with contextlib.suppress(PermissionError):
            yield from sorted(base.with_name("famulus.d").glob("*.toml"))


def _is_there(file: Path, *, if_hidden: bool = True) -> bool:
    try:
        return file.is_file()
    except PermissionError:
        # Reading the file will say so. But sudo may leave $HOME as somebody else's, whose settings are not ours.
        return if_hidden


def _read(path: Path, problems: list[Problem]) -> Iterator[tuple[str, str, Any]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        problems.append(Problem(str(path), "", f"cannot be read: {err.strerror}"))
        return
    except UnicodeDecodeError:
        problems.append(Problem(str(path), "", "is not UTF-8 text; save it as UTF-8"))
        return
    except tomllib.TOMLDecodeError as err:
        problems.append(Problem(str(path), "", f"is not TOML: {err}"))
        return
    for section, values in content.items():
        if section not in Settings.model_fields:
            problems.append(Problem(str(path), section, _unknown(section, Settings.model_fields, "section")))
        elif not isinstance(values, dict):
            problems.append(Problem(str(path), section, f"is a section: write [{section}] and its keys below it"))
        else:
            fields = _section(section).model_fields
            for key, value in values.items():
                if key in fields:
                    yield section, key, value
                else:
                    problems.append(Problem(str(path), f"{section}.{key}", _unknown(key, fields, "key")))


def _from_environment(environ: Mapping[str, str], problems: list[Problem]) -> Iterator[tuple[str, str, str, Any]]:
    """``FAMULUS_<SECTION>__<KEY>=value``; other FAMULUS_ variables belong to the scripts."""
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX) or "__" not in variable:
            continue
        section, _, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if section not in Settings.model_fields:
            problems.append(Problem(variable, section, _unknown(section, Settings.model_fields, "section")))
            continue
        fields = _section(section).model_fields
        if key not in fields:
            problems.append(Problem(variable, f"{section}.{key}", _unknown(key, fields, "key")))
            continue
        text = environ[variable]
        is_list = get_origin(fields[key].annotation) is tuple
        yield variable, section, key, [part.strip() for part in text.split(",") if part.strip()] if is_list else text


def _section(name: str) -> type[BaseModel]:
    section = Settings.model_fields[name].annotation
    assert isinstance(section, type) and issubclass(section, BaseModel)
    return section


def _unknown(name: str, known: Mapping[str, object], what: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"the {what}s are: {', '.join(known)}"
    return f"there is no such {what}; {hint}"


def _message(text: str) -> str:
    return text[:1].lower() + text[1:]


def _toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case tuple():
            return "[" + ", ".join(_toml(item) for item in value) + "]"
        case _:
            return str(value)
