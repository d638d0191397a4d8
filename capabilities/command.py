"""The words of the capability model: Command, Capability, Call, Outcome."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){0,3}$"
Language = Literal["en", "zh"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Risk(StrEnum):
    """What a wrong call would cost: nothing, an annoyance, or harm. Only the declaration decides it."""

    SAFE = "safe"
    NOTABLE = "notable"
    DANGEROUS = "dangerous"


class Sentence(_Frozen):
    """A hassil template such as ``(turn|switch) on [the] [{room}] light``.

    A ``{slot}`` is named after a parameter and takes that parameter's values: the enum's values and their
    ``x-names``, the integer's range (digits or words), or free words. ``args`` are added as they stand.
    """

    text: str = Field(min_length=1, max_length=500)
    args: dict[str, Any] = {}


class Example(_Frozen):
    """Something people say, with the arguments it means: few-shots for a model, never matched literally."""

    text: str = Field(min_length=1, max_length=500)
    language: Language = "en"
    args: dict[str, Any] = {}


class Command(_Frozen):
    """One thing that can be done.

    ``name`` is unique over the whole device (``light.on``). ``parameters`` is a JSON Schema object of the
    subset that ``schema.py`` compiles. ``timeout_s`` bounds one call.
    """

    name: str = Field(pattern=NAME_PATTERN, max_length=64)
    description: str = Field(min_length=1, max_length=400)
    parameters: dict[str, Any] = {}
    sentences: dict[Language, tuple[Sentence, ...]] = {}
    examples: tuple[Example, ...] = ()
    risk: Risk = Risk.SAFE
    scenes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    sensitive: bool = False
    timeout_s: float = Field(default=5.0, gt=0, le=120)


class Capability(_Frozen):
    """A named group of commands with one provider. A higher ``priority`` wins a command name."""

    name: str = Field(pattern=NAME_PATTERN, max_length=64)
    description: str = Field(default="", max_length=400)
    version: str = Field(default="", max_length=32)
    priority: int = Field(default=0, ge=-100, le=100)
    commands: tuple[Command, ...] = Field(min_length=1, max_length=500)


class Call(_Frozen):
    """A parsed invocation; ``args`` are validated by the registry before anything runs."""

    method: str
    args: dict[str, Any] = {}


class OutcomeError(_Frozen):
    """Why a call failed: a stable code of ``core.errors`` and one sentence."""

    code: str
    message: str


class Outcome(_Frozen):
    """What a call gave: data, a text to say, or an error."""

    data: Any = None
    say: str = Field(default="", max_length=4000)
    error: OutcomeError | None = None

    @property
    def ok(self) -> bool:
        return self.error is None
