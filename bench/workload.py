"""Commands and sentences for the suites of the language model: as many as asked for, the same in every run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from ..capabilities.command import Command, Example
from ..daemon.agent.grammar import calls_grammar
from ..daemon.agent.prompts import TEXT_REPLY, render_prefix, render_suffix

_DEVICES = ("lamp", "heater", "fan", "blind", "speaker", "screen", "valve", "pump")
_ROOMS = ("kitchen", "bedroom", "bathroom", "office", "garage", "garden", "cellar", "attic")
_ACTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "on": ("Turn on the {device} in the {room}", {}),
    "off": ("Turn off the {device} in the {room}", {}),
    "set": (
        "Set how strong the {device} in the {room} is, in percent",
        {"percent": {"type": "integer", "minimum": 0, "maximum": 100}},
    ),
    "mode": ("Choose the mode of the {device} in the {room}", {"mode": {"enum": ["day", "night", "away"]}}),
}
MOST = len(_DEVICES) * len(_ROOMS) * len(_ACTIONS)
SENTENCES = (
    "could you make it a bit brighter in the kitchen",
    "i am leaving the house now",
    "it is too cold in the bedroom",
    "please stop the pump in the cellar",
    "set the fan in the office to thirty percent",
)
"""Said in turns, so that no two requests in a row are the same."""
_STORY = "tell me a long story about a lighthouse and the sea"


@dataclass(frozen=True)
class Prompt:
    """What the daemon's own pipeline would send with ``commands`` registered."""

    commands: int
    prefix: str
    grammar: str


def make_prompt(count: int, *, context: int, max_tokens: int = 96, suffix_tokens: int = 512) -> Prompt:
    """``count`` commands; as in the daemon, those that do not fit into ``context`` tokens are left out."""
    commands = make_commands(count)
    prefix = render_prefix(commands, max(context - max_tokens - suffix_tokens, 64))
    return Prompt(count, prefix, calls_grammar((*commands, TEXT_REPLY)))


def make_commands(count: int) -> list[Command]:
    """The first ``count`` of ``MOST``; each asks for what it needs, and the first ones have examples."""
    made: list[Command] = []
    for device, room, action in list(product(_DEVICES, _ROOMS, _ACTIONS))[:count]:
        text, properties = _ACTIONS[action]
        made.append(
            Command(
                name=f"{device}.{room}.{action}",
                description=text.format(device=device, room=room),
                parameters={"type": "object", "properties": properties, "required": list(properties)},
                examples=(Example(text=f"{device} {action} in the {room}"),)
                if len(made) < 16 and not properties
                else (),
            )
        )
    return made


def suffix(number: int) -> str:
    """The person's turn of request ``number``."""
    return render_suffix(SENTENCES[number % len(SENTENCES)])


def story() -> str:
    """A turn whose answer is long."""
    return render_suffix(_STORY)


def vocabulary_text() -> str:
    """What random models learn their tokens from: everything that these suites let a model read."""
    prompt = make_prompt(MOST, context=1 << 20)
    return prompt.prefix + "".join(map(render_suffix, (*SENTENCES, _STORY)))
