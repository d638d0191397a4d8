"""A capability as its app declares it: JSON text in, a checked Capability or one message with every problem out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from pydantic import ValidationError

from ..core.errors import InvalidArguments
from .command import Capability, Command
from .parameters import did_you_mean, shown
from .schema import CompiledSchema, compile_schema, validate_args
from .template import Template, parse_template

MAX_MANIFEST_BYTES = 256 * 1024
_MAX_TOLD = 20


def parse_manifest(json_text: str) -> Capability:
    """The capability in a manifest of at most 256 KB.

    Raises ``InvalidArguments`` whose message holds a line for each problem, with its path and what to do.
    """
    content = _load(json_text)
    problems: list[str] = []
    capability: Capability | None = None
    try:
        capability = Capability.model_validate(content)
    except ValidationError as error:
        problems += _form_problems(error)
    commands = content.get("commands")
    seen: dict[str, int] = {}
    for index, raw in enumerate(commands if isinstance(commands, list) else []):
        try:
            command = Command.model_validate(raw)
        except ValidationError:
            continue  # told above
        first = seen.setdefault(command.name, index)
        if first != index:
            problems.append(f"commands[{index}].name: {command.name} is the name of commands[{first}] already")
        problems += [f"commands[{index}].{problem}" for problem in command_problems(command)]
    if problems or capability is None:
        more = [f"and {len(problems) - _MAX_TOLD} more"] if len(problems) > _MAX_TOLD else []
        raise InvalidArguments("\n".join(["The manifest is refused:", *problems[:_MAX_TOLD], *more]))
    return capability


def command_problems(command: Command) -> Iterator[str]:
    """What is wrong with a command beyond its form: its schema, and what its sentences and examples refer to."""
    try:
        schema = compile_schema(command.parameters)
    except InvalidArguments as error:
        yield from error.message.splitlines()
        return
    partial = _optional(schema)
    for language, sentences in command.sentences.items():
        for index, sentence in enumerate(sentences):
            path = f"sentences.{language}[{index}]"
            try:
                template = parse_template(sentence.text)
            except InvalidArguments as error:
                yield f"{path}: {error.message}"
                continue
            yield from (f"{path}: {problem}" for problem in _slot_problems(template, sentence.args, schema))
            if sentence.args:
                yield from (f"{path}.args: {problem}" for problem in _args_problems(partial, sentence.args))
    for index, example in enumerate(command.examples):
        yield from (f"examples[{index}].args: {problem}" for problem in _args_problems(schema, example.args))


def _args_problems(schema: CompiledSchema, args: Mapping[str, Any]) -> Iterator[str]:
    try:
        validate_args(schema, args)
    except InvalidArguments as error:
        yield error.message


def _slot_problems(template: Template, args: Mapping[str, Any], schema: CompiledSchema) -> Iterator[str]:
    for slot in template.slots:
        parameter = schema.parameters.get(slot)
        if parameter is None:
            hint = did_you_mean(slot, schema.parameters, "{{}}")
            yield f"slot {{{slot}}} is not a parameter{hint}"
        elif parameter.type in ("boolean", "array"):
            yield f"slot {{{slot}}} is a {parameter.type}, which cannot be spoken; put its value into args"
    for name, parameter in schema.parameters.items():
        if parameter.required and name not in args and name not in template.certain_slots:
            yield f"the required parameter {name} is neither a slot of every reading nor in args"


def _optional(schema: CompiledSchema) -> CompiledSchema:
    """The same schema where nothing is missing: a sentence's args are only part of the call."""
    return CompiledSchema({name: replace(p, required=False) for name, p in schema.parameters.items()})


def _load(json_text: str) -> dict[str, Any]:
    size = len(json_text.encode("utf-8", "surrogatepass"))
    if size > MAX_MANIFEST_BYTES:
        raise InvalidArguments(f"The manifest has {size} bytes; the limit is {MAX_MANIFEST_BYTES}.")
    try:
        content = json.loads(json_text, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidArguments("The manifest is nested too deeply.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidArguments(f"The manifest is not JSON: {error.msg} at {where}.") from None
    except ValueError as error:
        raise InvalidArguments(f"The manifest is not JSON: {str(error)[:100]}.") from None
    if not isinstance(content, dict):
        raise InvalidArguments(f"The manifest must be a JSON object, not {shown(content)}.")
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _form_problems(error: ValidationError) -> Iterator[str]:
    faults = error.errors(include_url=False, include_context=False)
    # A list of which no item is good counts as empty: the items' own faults say more.
    containers = {fault["loc"][:length] for fault in faults for length in range(len(fault["loc"]))}
    for problem in faults:
        if problem["loc"] in containers:
            continue
        path = _path(problem["loc"])
        if problem["type"] == "extra_forbidden":
            known = Command.model_fields if len(problem["loc"]) > 1 else Capability.model_fields
            yield f"{path}: there is no such key{did_you_mean(problem['loc'][-1], known)}"
        elif problem["type"] == "missing":
            yield f"{path}: is missing"
        else:
            yield f"{path}: {problem['msg'][:1].lower()}{problem['msg'][1:]}, not {shown(problem['input'])}"


def _path(location: Sequence[int | str]) -> str:
    """``("commands", 2, "name")`` as ``commands[2].name``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part[:100]}" if path else part[:100]
    return path or "the manifest"
