"""The models famulus knows: what each is for, its licence, where its files come from and how to tell they are whole."""

from __future__ import annotations

import difflib
import tomllib
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..core.errors import InvalidArguments, NotFound

Role = Literal["wake", "vad", "asr", "llm", "embedder", "tts"]

_BUNDLED = Path(__file__).with_name("catalogue.toml")
_PLAIN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # one path component that is neither hidden nor an option


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


Source = Annotated[PackageSource | WheelSource | UrlSource, Field(discriminator="kind")]


class ModelFile(_Model):
    """One file: ``name`` is what the code asks for, ``filename`` what it is called on disk; ``size`` in bytes."""

    name: str = Field(pattern=_PLAIN_NAME)
    member: str = ""
    url: str = Field(default="", pattern=r"^$|^https?://[^/]+/.+$")
    size: int = Field(gt=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

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
    licence: str = Field(description="SPDX identifier.")
    licence_note: str = ""
    source: Source
    files: tuple[ModelFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)

    @model_validator(mode="after")
    def _files_fit_the_source(self) -> ModelEntry:
        if isinstance(self.source, PackageSource) == bool(self.files):
            raise ValueError("a package source lists no files; every other source lists at least one")
        for file in self.files:
            if bool(file.member) != isinstance(self.source, WheelSource) or bool(file.url) == bool(file.member):
                raise ValueError(f"file {file.name!r} needs `member` for a wheel source, `url` for a url source")
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

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Catalogue:
        ids = [entry.id for entry in self.models]
        for model_id in ids:
            if ids.count(model_id) > 1:
                raise ValueError(f"two models have the id {model_id!r}")
        return self
