from __future__ import annotations

from typing import Any

import pytest
from famulus.capabilities.command import Call, Command
from famulus.daemon.agent.support import keep_supported

COMMAND = Command(
    name="x.y",
    description="x",
    parameters={
        "type": "object",
        "properties": {
            "room": {"type": "string", "enum": ["kitchen", "all"], "default": "all", "x-names": {"kitchen": ["厨房"]}},
            "percent": {"type": "integer", "minimum": 0, "maximum": 100},
            "label": {"type": "string"},
        },
        "required": ["percent"],
    },
)


@pytest.mark.parametrize(
    ("text", "args", "kept"),
    [
        ("make it 30 in the kitchen", {"percent": 30, "room": "kitchen"}, {"percent": 30, "room": "kitchen"}),
        ("thirty percent", {"percent": 30, "room": "kitchen"}, {"percent": 30}),
        ("thirty percent", {"percent": 30, "room": "all"}, {"percent": 30, "room": "all"}),
        ("厨房百分之三十", {"percent": 30, "room": "kitchen"}, {"percent": 30, "room": "kitchen"}),
        ("ten for the eggs", {"percent": 10, "label": "eggs"}, {"percent": 10, "label": "eggs"}),
        ("ten please", {"percent": 10, "label": "eggs"}, {"percent": 10}),
    ],
)
def test_optional_arguments_that_nobody_said_are_dropped(text: str, args: dict[str, Any], kept: dict[str, Any]) -> None:
    assert keep_supported(Call(method="x.y", args=args), COMMAND, text) == Call(method="x.y", args=kept)


def test_a_required_number_that_nobody_said_refuses_the_call() -> None:
    assert keep_supported(Call(method="x.y", args={"percent": 70}), COMMAND, "make it bright") is None
