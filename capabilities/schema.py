"""The JSON Schema subset that commands use, as pydantic models and back.

A schema is ``{"type": "object", "properties": {...}, "required": [...]}``, or ``{}`` for no parameters. A
property is a ``string`` (``enum``, ``minLength``, ``maxLength`` up to 2000), an ``integer`` or a ``number``
(``minimum``, ``maximum``, ``exclusiveMinimum``, ``exclusiveMaximum``), a ``boolean``, or an ``array`` of those
(``items``, ``maxItems`` up to 100), each with ``description`` and ``default``. ``x-names`` beside ``enum`` maps
a value to further spoken forms. Nothing else is accepted, and no further property ever is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from ..core.errors import InvalidArguments
from .parameters import Parameter, did_you_mean, shown
from .subset import SubsetReader


@dataclass(frozen=True)
class CompiledSchema:
    """The parameters of a command by name, in the order of their declaration."""

    parameters: Mapping[str, Parameter]

    @cached_property
    def model(self) -> type[BaseModel]:
        """The arguments as a pydantic model; built on first use, since most commands are never called.

        Fields are ``p0``, ``p1``, … and their aliases the parameters' names, so that a parameter may be called
        ``copy`` or ``json``.
        """
        fields: dict[str, Any] = {}
        for index, parameter in enumerate(self.parameters.values()):
            default = ... if parameter.required else parameter.default
            fields[f"p{index}"] = (parameter.annotation, Field(default, alias=parameter.name))
        return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)


def compile_schema(schema: object, path: str = "parameters") -> CompiledSchema:
    """Check a schema and compile it.

    Raises ``InvalidArguments`` that names each fault by its JSON path, which begins with ``path``.
    """
    reader = SubsetReader()
    parameters = reader.read(schema, path)
    if reader.problems:
        raise InvalidArguments("\n".join(reader.problems))
    return CompiledSchema(parameters)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a pydantic model; raises ``InvalidArguments`` for a field outside the subset."""
    raw = model.model_json_schema()
    definitions = raw.get("$defs", {})
    properties = {name: _plain(prop, definitions) for name, prop in raw.get("properties", {}).items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := raw.get("required"):
        schema["required"] = required
    compile_schema(schema, model.__name__)
    return schema


def validate_args(compiled: CompiledSchema, args: object) -> dict[str, Any]:
    """The arguments with defaults filled in; a parameter without value or default is left out.

    Types are strict, except that ``"30"`` and ``30.0`` are taken for a whole number. Raises ``InvalidArguments``
    with one sentence for each wrong argument, all at once.
    """
    if not isinstance(args, Mapping):
        raise InvalidArguments(f"The arguments must be an object, not {shown(args)}.")
    try:
        parsed = compiled.model.model_validate(dict(args))
    except ValidationError as error:
        raise InvalidArguments(" ".join(_sentences(error, compiled.parameters))) from None
    result: dict[str, Any] = {}
    for index, parameter in enumerate(compiled.parameters.values()):
        if parameter.has_default or f"p{index}" in parsed.model_fields_set:
            value = getattr(parsed, f"p{index}")
            result[parameter.name] = list(value) if isinstance(value, list) else value
    return result


def _sentences(error: ValidationError, parameters: Mapping[str, Parameter]) -> list[str]:
    sentences: list[str] = []
    for problem in error.errors(include_url=False, include_context=False):
        name, *position = problem["loc"]
        parameter = parameters.get(str(name))
        if parameter is None:
            known = f"the parameters are {', '.join(parameters)}" if parameters else "there are none"
            sentences.append(f"There is no parameter {shown(name)}{did_you_mean(name, parameters) or f': {known}.'}")
        elif problem["type"] == "missing":
            sentences.append(f"{parameter.name} is missing: it must be {parameter.expected()}.")
        elif position and parameter.items is not None:
            what = f"{parameter.name}[{position[0]}] must be {parameter.items.expected()}"
            sentences.append(f"{what}, not {shown(problem['input'])}.")
        else:
            sentences.append(f"{parameter.name} must be {parameter.expected()}, not {shown(problem['input'])}.")
    return sentences


def _plain(prop: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A property as pydantic writes it, without references, titles, ``const`` and optional null."""
    prop = dict(prop)
    if reference := prop.pop("$ref", ""):
        prop = {**definitions.get(reference.rpartition("/")[2], {}), **prop}
    options = [option for option in prop.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        del prop["anyOf"]
        prop = {**_plain(options[0], definitions), **prop}
        if prop.get("default", ...) is None:
            del prop["default"]
    if "const" in prop:
        prop["enum"] = [prop.pop("const")]
    if "items" in prop:
        prop["items"] = _plain(prop["items"], definitions)
    prop.pop("title", None)
    return prop
