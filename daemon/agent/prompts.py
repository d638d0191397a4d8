"""What the local model reads: one byte-stable prefix for a set of commands, and a short suffix for a sentence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ...capabilities.command import Call, Command

TEXT_REPLY = Command(
    name="text_reply",
    description="Answer in words where no other command fits",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 400}},
        "required": ["text"],
    },
)
"""What the model says when nothing fits. Not a command of the registry: nobody provides it."""

_SYSTEM = (
    "You turn what a person says into calls of this device's commands. Answer only with a JSON array of calls: "
    '[{"method": "name", "args": {}}]. Use only these commands and arguments:\n'
)
_NO_FIT = [("what is the capital of france", "I did not understand."), ("how are you", "I did not understand.")]
_CHARS_PER_TOKEN = 3.0
"""Pessimistic for English JSON (3.5 measured on SmolLM2's vocabulary)."""
_MAX_EXAMPLES_PER_COMMAND = 2


def render_prefix(commands: Sequence[Command], budget_tokens: int) -> str:
    """System text, commands and few-shots, in the order of registration so that a newcomer changes the end only.

    Stays within ``budget_tokens`` (estimated): first few-shots are left out, then the last commands.
    """
    room = int(budget_tokens * _CHARS_PER_TOKEN)
    lines = [_command_line(command) for command in (*commands, TEXT_REPLY)]
    while len(lines) > 1 and sum(map(len, lines)) + len(_SYSTEM) > room:
        del lines[-2]
    system = _turn("system", _SYSTEM + "\n".join(lines))
    shots = [_few_shot(text, [Call(method=TEXT_REPLY.name, args={"text": reply})]) for text, reply in _NO_FIT]
    for command in commands:
        for example in [e for e in command.examples if e.language == "en"][:_MAX_EXAMPLES_PER_COMMAND]:
            shots.append(_few_shot(example.text, [Call(method=command.name, args=example.args)]))
    used, kept = len(system), []
    for shot in shots:
        if used + len(shot) > room:
            break
        used += len(shot)
        kept.append(shot)
    return system + "".join(kept)


def render_suffix(text: str) -> str:
    """The person's sentence, up to where the model begins to answer."""
    return _turn("user", text) + "<|im_start|>assistant\n"


def render_repair(answer: str, problem: str) -> str:
    """What follows a wrong answer: the answer itself, the exact error, and the model's turn again."""
    wish = f"That is wrong: {problem} Answer again with the corrected JSON array."
    return f"{_neutral(answer)}<|im_end|>\n" + render_suffix(wish)


def render_calls(calls: Iterable[Call]) -> str:
    """Calls in the surface form that the model reads and writes."""
    return json.dumps([{"method": c.method, "args": c.args} for c in calls], ensure_ascii=False)


def _few_shot(text: str, calls: list[Call]) -> str:
    return _turn("user", text) + _turn("assistant", render_calls(calls))


def _turn(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{_neutral(text)}<|im_end|>\n"


def _neutral(text: str) -> str:
    """Text that cannot open or close a turn: no vocabulary has a control token with a space after the ``<``."""
    return text.replace("<", "< ")


def _command_line(command: Command) -> str:
    properties = command.parameters.get("properties", {})
    required = command.parameters.get("required", ())
    parts = [f"{name}{'' if name in required else '?'}: {_type(schema)}" for name, schema in properties.items()]
    return f"- {command.name}({', '.join(parts)}): {command.description}"


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(str(value) for value in schema["enum"])
    kind = str(schema.get("type", "string"))
    if "minimum" in schema and "maximum" in schema:
        return f"{kind} {schema['minimum']}-{schema['maximum']}"
    return kind
