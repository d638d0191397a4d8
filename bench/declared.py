"""Commands and their phrases from two JSON files, as an app would declare them on the bus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..capabilities.command import Capability, Command, Example, Language, Risk, Sentence
from ..capabilities.manifest import command_problems
from ..core.errors import InvalidArguments, NotFound
from ..daemon.agent.meaning.arguments import read_arguments
from ..daemon.agent.meaning.disfluency import make_fluent
from ..daemon.agent.text import normalise

DATA = Path(__file__).with_name("data")
_BOUNDS = {"min": "minimum", "max": "maximum"}
ANSWER = "text_reply"
"""The files' name for "no command": famulus says so with no call."""


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise NotFound(f"{path} cannot be read ({error.strerror}); give the path of a JSON file.") from None
    except ValueError as error:
        raise InvalidArguments(f"{path} is not JSON: {error}.") from None


def load_capability(commands: Path, phrases: Path) -> Capability:
    """The commands of ``commands`` with the sentences, examples, names and risks of ``phrases``.

    ``commands`` is a list of ``{name, description, params, required}``, a parameter a JSON schema whose bounds may be
    called ``min`` and ``max``. ``phrases`` maps a name to ``{risk, x-names: {parameter: {value: [...]}}, sentences:
    {language: [template or {text, args}]}, examples: {language: [text or {text, args}]}}``; the arguments of an
    example that has none are read by the rules. A command without phrases is offered by its description alone.
    """
    said = read_json(phrases)
    try:
        declared = [
            _command(item, said.get(item["name"], {})) for item in read_json(commands) if item["name"] != ANSWER
        ]
        capability = Capability(name="bench", commands=tuple(declared))
    except (ValidationError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArguments(
            f"{commands} and {phrases} do not fit the form of commands and phrases: {error}"
        ) from None
    if problems := [f"{c.name}: {problem}" for c in capability.commands for problem in command_problems(c)]:
        raise InvalidArguments("\n".join([f"Correct {phrases}:", *problems]))
    return capability


def _command(item: dict[str, Any], phrases: dict[str, Any]) -> Command:
    properties = {
        name: {
            **{_BOUNDS.get(key, key): value for key, value in schema.items()},
            **({"x-names": names} if (names := phrases.get("x-names", {}).get(name)) and "enum" in schema else {}),
        }
        for name, schema in item.get("params", {}).items()
    }
    parameters: dict[str, Any] = {"type": "object", "properties": properties} if properties else {}
    if item.get("required"):
        parameters["required"] = item["required"]
    command = Command(
        name=item["name"],
        description=item["description"],
        parameters=parameters,
        sentences={
            language: tuple(Sentence.model_validate({"text": s} if isinstance(s, str) else s) for s in sentences)
            for language, sentences in phrases.get("sentences", {}).items()
        },
        risk=Risk(phrases.get("risk", "safe")),
    )
    examples = [
        _example(example, language, command)
        for language, texts in phrases.get("examples", {}).items()
        for example in texts
    ]
    return command.model_copy(update={"examples": tuple(examples)})


def _example(given: str | dict[str, Any], language: Language, command: Command) -> Example:
    if isinstance(given, dict):
        return Example(language=language, **given)
    reading = read_arguments(command, make_fluent(normalise(given, language), language), language)
    return Example(text=given, language=language, args=reading.args[0] if reading.args else {})
