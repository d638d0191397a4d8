"""A function's signature becomes the schema that famulus accepts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pytest
from famulus.capabilities.schema import compile_schema
from famulus.client import Names, Range
from famulus.client.schema import optional_parameters, parameters_of
from famulus.core.errors import InvalidArguments


def everything(  # noqa: PLR0917
    count: Annotated[int, Range(0, 100)],
    room: Annotated[Literal["kitchen", "living room"], Names({"living room": ["客厅"]}, kitchen=["厨房"])],
    words: list[str],
    maybe: Optional[float],  # noqa: UP045
    unless: str | None = None,
    ratio: float = 0.5,
    loud: Annotated[bool, "Whether to shout"] = False,
) -> None: ...


def test_each_kind_of_parameter_has_its_schema():
    schema = parameters_of(everything)
    assert schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 0, "maximum": 100},
            "room": {
                "type": "string",
                "enum": ["kitchen", "living room"],
                "x-names": {"living room": ["客厅"], "kitchen": ["厨房"]},
            },
            "words": {"type": "array", "items": {"type": "string"}},
            "maybe": {"type": "number"},
            "unless": {"type": "string"},
            "ratio": {"type": "number", "default": 0.5},
            "loud": {"type": "boolean", "description": "Whether to shout", "default": False},
        },
        "required": ["count", "room", "words"],
    }
    compile_schema(schema)
    assert optional_parameters(everything) == ("maybe",)


def test_no_parameters_mean_no_schema():
    assert parameters_of(lambda: None) == {}


def untyped(x) -> None: ...
def anything(x: Any) -> None: ...
def several(*x: int) -> None: ...
def mixed(x: int | str) -> None: ...
def numbers(x: Literal[1, 2]) -> None: ...
def odd_default(x: str = object()) -> None: ...  # type: ignore[assignment]


@pytest.mark.parametrize("function", [untyped, anything, several, mixed, numbers, odd_default])
def test_what_has_no_schema_is_refused_by_name(function):
    with pytest.raises(InvalidArguments, match=function.__name__):
        parameters_of(function)
