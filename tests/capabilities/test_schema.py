"""Schemas of commands: what compiles, what is refused and where, and how arguments are checked."""

from __future__ import annotations

import contextlib
import enum
from typing import Any, Literal

import pytest
from famulus.capabilities.schema import CompiledSchema, compile_schema, schema_of, validate_args
from famulus.core.errors import InvalidArguments
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

ROOM = {"type": "string", "enum": ["kitchen", "living room"], "x-names": {"kitchen": ["厨房"]}}
PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}


def compiled(properties: dict[str, Any], *required: str) -> CompiledSchema:
    return compile_schema({"type": "object", "properties": properties, "required": list(required)})


def refusal(schema: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        compile_schema(schema)
    return caught.value.message


def complaint(schema: CompiledSchema, args: object) -> str:
    with pytest.raises(InvalidArguments) as caught:
        validate_args(schema, args)
    return caught.value.message


def test_an_empty_schema_takes_no_arguments() -> None:
    schema = compile_schema({})
    assert validate_args(schema, {}) == {}
    assert complaint(schema, {"x": 1}) == 'There is no parameter "x": there are none.'


def test_a_parameter_keeps_what_its_schema_says() -> None:
    schema = compiled({"room": {**ROOM, "default": "kitchen", "description": "Where"}, "percent": PERCENT}, "percent")
    room, percent = schema.parameters["room"], schema.parameters["percent"]
    assert (room.enum, room.names, room.default, room.description) == (
        ("kitchen", "living room"),
        {"kitchen": ("厨房",)},
        "kitchen",
        "Where",
    )
    assert (percent.minimum, percent.maximum, percent.required, room.required) == (0, 100, True, False)


def test_exclusive_bounds_of_a_whole_number_become_inclusive_ones() -> None:
    bounds = {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10, "minimum": -5}
    parameter = compiled({"n": bounds}).parameters["n"]
    assert (parameter.minimum, parameter.maximum, parameter.exclusive_minimum) == (1, 9, None)


def test_defaults_are_filled_and_absent_values_left_out() -> None:
    schema = compiled({"a": {"type": "string", "default": "x"}, "b": {"type": "string"}})
    assert validate_args(schema, {}) == {"a": "x"}
    assert validate_args(schema, {"b": ""}) == {"a": "x", "b": ""}


def test_a_default_list_is_never_shared() -> None:
    schema = compiled({"a": {"type": "array", "items": {"type": "integer"}, "default": [1]}})
    validate_args(schema, {})["a"].append(2)
    assert validate_args(schema, {}) == {"a": [1]}


@pytest.mark.parametrize("value", [30, "30", 30.0, "+30"])
def test_a_whole_number_is_taken_from_digits_and_from_a_float_without_fraction(value: object) -> None:
    result = validate_args(compiled({"n": PERCENT}), {"n": value})
    assert result == {"n": 30}
    assert type(result["n"]) is int


@pytest.mark.parametrize("value", [True, None, "", "30%", "3e1", "٣", 30.5, float("nan"), [30], {}, 101, -1, 10**400])
def test_a_whole_number_is_taken_from_nothing_else(value: object) -> None:
    assert "n must be a whole number from 0 to 100" in complaint(compiled({"n": PERCENT}), {"n": value})


@pytest.mark.parametrize(
    ("prop", "value"),
    [
        ({"type": "boolean"}, 1),
        ({"type": "boolean"}, "true"),
        ({"type": "string"}, 5),
        ({"type": "string"}, "x" * 2001),
        ({"type": "string", "minLength": 2}, "x"),
        ({"type": "string"}, "\ud800"),
        ({"type": "number"}, "1.5"),
        ({"type": "number"}, float("inf")),
        ({"type": "number"}, True),
        ({"type": "number"}, 10**400),
        ({"type": "number", "exclusiveMinimum": 0}, 0),
        ({"type": "integer"}, 2**63),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 1}, [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "12"),
        (ROOM, "Kitchen"),
        (ROOM, None),
    ],
)
def test_a_wrong_type_or_range_is_refused(prop: dict[str, Any], value: object) -> None:
    assert complaint(compiled({"v": prop}), {"v": value}).startswith("v must be ")


def test_all_wrong_arguments_are_told_at_once() -> None:
    schema = compiled(
        {"percent": PERCENT, "room": ROOM, "rooms": {"type": "array", "items": ROOM}, "x": PERCENT}, "percent", "x"
    )
    assert complaint(schema, {"percent": "many", "rom": "kitchen", "rooms": ["kitchen", "attic"]}) == (
        'percent must be a whole number from 0 to 100, not "many". '
        'rooms[1] must be one of kitchen, living room, not "attic". '
        "x is missing: it must be a whole number from 0 to 100. "
        'There is no parameter "rom"; did you mean room?'
    )


def test_a_long_value_is_never_repeated() -> None:
    message = complaint(compiled({"n": PERCENT}), {"n": "secret " * 100, "y" * 500: 1})
    assert "…" in message
    assert len(message) < 300


@pytest.mark.parametrize("name", ["copy", "json", "model_config", "schema", "p0", "self"])
def test_a_parameter_may_bear_the_name_of_a_pydantic_attribute(name: str) -> None:
    assert validate_args(compiled({name: {"type": "string"}, "p1": PERCENT}), {name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ([], "parameters: must be an object, not a list"),
        ({"properties": {}}, 'parameters.type: must be "object"'),
        ({"type": "object", "additionalProperties": True}, "parameters.additionalProperties: can only be false"),
        ({"type": "object", "oneOf": []}, 'parameters: "oneOf" is not supported, only type, '),
        ({"type": "object", "required": ["rom"], "properties": {"room": ROOM}}, "did you mean room?"),
        ({"type": "object", "required": "room"}, "parameters.required: must be a list"),
        ({"type": "object", "properties": {"1st": PERCENT}}, '"1st" is not a name'),
        ({"type": "object", "properties": {f"p{i}": PERCENT for i in range(33)}}, "at most 32 parameters"),
    ],
)
def test_a_bad_schema_is_refused_with_its_path(schema: object, told: str) -> None:
    assert told in refusal(schema)


@pytest.mark.parametrize(
    ("prop", "told"),
    [
        ("text", "parameters.properties.v: must be an object"),
        ({}, "v.type: must be one of string, integer, number, boolean, array, not null"),
        ({"type": ["string", "null"]}, "v.type: must be one of"),
        ({"type": "object"}, 'not "object"'),
        ({"type": "string", "pattern": "a+"}, '"pattern" is not supported'),
        ({"type": "string", "maxlength": 5}, "did you mean maxLength?"),
        ({"type": "string", "maxLength": 2001}, "v.maxLength: must be a whole number from 0 to 2000"),
        ({"type": "string", "minLength": 5, "maxLength": 4}, "v.minLength: is above maxLength"),
        ({"type": "string", "enum": []}, "v.enum: must be a list"),
        ({"type": "string", "enum": ["a", "a"]}, "v.enum: must be a list"),
        ({"type": "string", "enum": [""]}, "v.enum: holds a value that is empty"),
        ({"type": "integer", "enum": [1]}, '"enum" is not supported'),
        ({"type": "string", "x-names": {}}, "v.x-names: needs an enum"),
        ({**ROOM, "x-names": {"kichen": ["厨房"]}}, "did you mean kitchen?"),
        ({**ROOM, "x-names": {"kitchen": "厨房"}}, "v.x-names.kitchen: must be a list"),
        ({"type": "integer", "minimum": 0.5}, "v.minimum: must be a whole number"),
        ({"type": "number", "minimum": float("nan")}, "v.minimum: must be a number"),
        ({"type": "integer", "maximum": 10**40}, "v.maximum: must be a number of less than 64 bits"),
        ({"type": "integer", "minimum": 5, "exclusiveMaximum": 5}, "v: leaves no number"),
        ({"type": "number", "minimum": 5, "exclusiveMaximum": 5}, "v: leaves no number"),
        ({"type": "array"}, "v.items: must be an object"),
        ({"type": "array", "items": {"type": "array", "items": PERCENT}}, "v.items: must be an object"),
        ({"type": "array", "items": {"type": "string", "format": "uri"}}, 'v.items: "format" is not supported'),
        ({**PERCENT, "default": 101}, "v.default: must be a whole number from 0 to 100, not 101"),
        ({**ROOM, "default": "attic"}, "v.default: must be one of kitchen, living room"),
        ({**PERCENT, "description": 5}, "v.description: must be text"),
    ],
)
def test_a_bad_property_is_refused_with_its_path(prop: object, told: str) -> None:
    assert told in refusal({"type": "object", "properties": {"v": prop}})


def test_all_faults_of_a_schema_are_told_at_once() -> None:
    message = refusal(
        {"type": "object", "properties": {"a": {"type": "text"}, "b": {"type": "string", "maxLength": -1}}}
    )
    assert [line.partition(":")[0] for line in message.splitlines()] == [
        "parameters.properties.a.type",
        "parameters.properties.b.maxLength",
    ]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Light(BaseModel):
    percent: int = Field(ge=0, le=100, description="How bright")
    room: Literal["kitchen", "bedroom"] = Field(default="kitchen", json_schema_extra={"x-names": {"kitchen": ["厨房"]}})
    colour: Colour | None = None
    fade: float | None = Field(default=None, gt=0)
    only: Literal["now"] = "now"
    tags: list[Literal["a", "b"]] = Field(default=[], max_length=3)


def test_a_pydantic_model_becomes_the_same_subset() -> None:
    assert schema_of(Light) == {
        "type": "object",
        "properties": {
            "percent": {"type": "integer", "minimum": 0, "maximum": 100, "description": "How bright"},
            "room": {
                "type": "string",
                "enum": ["kitchen", "bedroom"],
                "default": "kitchen",
                "x-names": {"kitchen": ["厨房"]},
            },
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "fade": {"type": "number", "exclusiveMinimum": 0},
            "only": {"type": "string", "enum": ["now"], "default": "now"},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 3, "default": []},
        },
        "required": ["percent"],
    }


def test_a_model_outside_the_subset_is_refused_with_its_field() -> None:
    class Odd(BaseModel):
        when: int | str = 1
        nested: Light | None = None

    with pytest.raises(InvalidArguments, match=r"Odd\.properties\.when"):
        schema_of(Odd)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.just("\ud800")
    | st.sampled_from([2**63, -(2**64), 10**400]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)
words = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "enum",
        "default",
        "items",
        "minimum",
        "maximum",
        "maxLength",
        "x-names",
        "a",
        "b",
    ]
)
kinds = st.sampled_from(["object", "string", "integer", "number", "boolean", "array"])
schema_like = st.recursive(
    json_values | kinds,
    lambda inner: st.dictionaries(words, inner | kinds, max_size=6) | st.lists(inner, max_size=3),
    max_leaves=25,
)
properties = st.fixed_dictionaries(
    {"type": kinds}, optional={"default": json_values, "items": schema_like, "enum": st.lists(st.text())}
)


@given(
    schema_like | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(words, properties)})
)
def test_any_input_compiles_or_is_refused(schema: object) -> None:
    with contextlib.suppress(InvalidArguments):
        assert isinstance(compile_schema(schema), CompiledSchema)


EVERYTHING = compiled(
    {
        "text": {"type": "string", "minLength": 1},
        "room": {**ROOM, "default": "kitchen"},
        "count": {"type": "integer"},
        "level": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "on": {"type": "boolean", "default": False},
        "list": {"type": "array", "items": {"type": "number"}, "default": [1.5]},
    },
    "text",
)


@given(
    json_values
    | st.dictionaries(st.sampled_from([*EVERYTHING.parameters, "other"]) | st.integers() | st.text(), json_values)
    | st.fixed_dictionaries(
        {"text": st.text()}, optional={"count": json_values, "level": st.floats(), "list": json_values}
    )
)
def test_any_arguments_are_taken_or_refused_and_the_result_is_stable(args: object) -> None:
    try:
        result = validate_args(EVERYTHING, args)
    except InvalidArguments as refused:
        assert len(refused.message) < 5000
        return
    assert validate_args(EVERYTHING, result) == result
