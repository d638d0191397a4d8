"""The models famulus knows: what each is for, its licence, where its files come from and how to tell they are whole."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..core.errors import InvalidArguments, NotFound

Role = Literal["wake", "vad", "asr", "llm", "embedder", "tts"]

_BUNDLED = Path(__file__).with_name("catalogue.toml")
_PLAIN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # one path component that is neither hidden nor an option
_ADDRESS = r"^https?://[^/]+/.+$"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PackageSource(_Model):
    """The model lies inside an installed Python package; there is nothing to fetch."""

    kind: Literal["package"]
    package: str = Field(pattern=_PLAIN_NAME)
    module: str = Field(pattern=r"^[A-Za-z_]\w*$")


class WheelSource(_Model):
    """The files are members of a wheel. ``size`` is the wheel's, in bytes; ``platform`` a pip platform tag."""

    kind: Literal["wheel"]
    package: str = Field(pattern=_PLAIN_NAME)
    version: str = Field(pattern=_PLAIN_NAME)
    platform: str = Field(default="", pattern=r"^\w*$")
    size: int = Field(gt=0)


class UrlSource(_Model):
    """Each file has an HTTP(S) address of its own."""

    kind: Literal["url"]


class ArchiveSource(_Model):
    """The files are members of a tar archive (plain, gz, bz2 or xz). ``size`` and ``sha256`` are the archive's."""

    kind: Literal["archive"]
    url: str = Field(pattern=_ADDRESS)
    size: int = Field(gt=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def filename(self) -> str:
        return PurePosixPath(unquote(urlsplit(self.url).path)).name


class LocalSource(_Model):
    """The file is this machine's own: nothing to fetch. ``folder`` holds it; empty: the store, under the entry's id.

    ``made_from`` names what it was made from, with the ``made_from_sha256`` that had.
    """

    kind: Literal["local"]
    folder: str = ""
    made_from: str = ""
    made_from_sha256: str = ""


Source = Annotated[PackageSource | WheelSource | UrlSource | ArchiveSource | LocalSource, Field(discriminator="kind")]


class ModelFile(_Model):
    """One file: ``name`` is what the code asks for, ``filename`` what it is called on disk; ``size`` in bytes.

    An empty ``sha256`` says that nobody has told it yet: ``size`` is then approximate, and what the first pull
    brings is pinned.
    """

    name: str = Field(pattern=_PLAIN_NAME)
    member: str = ""
    url: str = Field(default="", pattern=rf"^$|{_ADDRESS}")
    size: int = Field(gt=0)
    sha256: str = Field(pattern=r"^([0-9a-f]{64})?$")

    @cached_property
    def filename(self) -> str:
        return PurePosixPath(self.member or unquote(urlsplit(self.url).path)).name


class ModelEntry(_Model):
    """One model of the catalogue."""

    id: str = Field(pattern=_PLAIN_NAME)
    title: str
    role: Role
    engine: str
    default: bool = Field(default=False, description="Fetched by script/setup and by a pull without ids.")
    licence: str = Field(description="SPDX identifier, or LicenseRef- and the name the publisher gives it.")
    licence_note: str = ""
    note: str = Field(default="", description="What to know before choosing it.")
    languages: tuple[str, ...] = Field(default=(), description="What it understands; empty where that is no matter.")
    quality: int = Field(default=0, description="Order among the models of one role; the higher is the more able.")
    source: Source
    files: tuple[ModelFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes on disk; approximate where a hash is not known."""
        return sum(file.size for file in self.files)

    @property
    def has_all_hashes(self) -> bool:
        return all(file.sha256 for file in self.files)

    @model_validator(mode="after")
    def _files_fit_the_source(self) -> ModelEntry:
        if isinstance(self.source, PackageSource) == bool(self.files):
            raise ValueError("a package source lists no files; every other source lists at least one")
        for file in self.files:
            if bool(file.url) != isinstance(self.source, UrlSource) or bool(file.url) == bool(file.member):
                raise ValueError(f"file {file.name!r} needs `url` for a url source, `member` for every other source")
            if not file.filename or file.filename.startswith(".") or "/" in file.filename or "\0" in file.filename:
                raise ValueError(f"file {file.name!r} has no usable file name in its member or url")
        for key in ("name", "filename"):
            values = [getattr(file, key) for file in self.files]
            if len(set(values)) != len(values):
                raise ValueError(f"two files have the same {key}")
        return self


class Catalogue(_Model):
    """All entries, in the order of their file."""

    models: tuple[ModelEntry, ...]

    @classmethod
    def load(cls, path: Path | None = None) -> Catalogue:
        """Read the bundled catalogue, or the one at ``path``.

        Raises ``NotFound`` without the file and ``InvalidArguments`` that lists every fault in it.
        """
        path = path or _BUNDLED
        try:
            return cls.model_validate(tomllib.loads(path.read_text("utf-8")))
        except OSError as error:
            raise NotFound(f"The catalogue {path} cannot be read ({error.strerror}); give the path of one.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidArguments(f"The catalogue {path} is not valid TOML: {error}.") from None
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise InvalidArguments(f"Correct the catalogue {path}: {faults}.") from None

    @property
    def entries(self) -> tuple[ModelEntry, ...]:
        return self.models

    @property
    def defaults(self) -> tuple[ModelEntry, ...]:
        """What a new installation fetches."""
        return tuple(entry for entry in self.models if entry.default)

    def entry(self, model_id: str) -> ModelEntry:
        """The entry of that id; raises ``NotFound`` with a suggestion."""
        ids = [entry.id for entry in self.models]
        if model_id in ids:
            return self.models[ids.index(model_id)]
        close = difflib.get_close_matches(model_id, ids, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"the catalogue has {', '.join(ids)}."
        raise NotFound(f"There is no model {model_id!r}; {hint}")

    def with_entries(self, more: Iterable[ModelEntry]) -> Catalogue:
        """This catalogue and ``more`` after it; an id that is already here stays what it is."""
        known = {entry.id for entry in self.models}
        return Catalogue(models=(*self.models, *(entry for entry in more if entry.id not in known)))

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Catalogue:
        ids = [entry.id for entry in self.models]
        for model_id in ids:
            if ids.count(model_id) > 1:
                raise ValueError(f"two models have the id {model_id!r}")
        return self
