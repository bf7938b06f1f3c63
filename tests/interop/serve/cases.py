"""What the programs of this folder share: one JSON line for each case, which cases_serve.py reads."""

import json
import traceback
import typing
from dataclasses import dataclass

import pydantic

QUESTION = "Name three colours."
# What the model `tools` of serve_models.py writes: two calls after a question, a text after their results, and where it may
# think, a thought and an answer.
ASKING = "I ask."
CALLED = [{"city": "Paris"}, {"city": "Rome"}]
TOLD = "It rains there."
THOUGHT, ANSWER = "Rain?", "Yes, rain."


@dataclass(frozen=True)
class Served:
    """A server, and the names of its models: one that chats, one that calls tools, one that embeds."""

    url: str
    chat: str
    tools: str
    words: str


class Light(pydantic.BaseModel):
    """Switches a light."""

    room: typing.Literal["kitchen", "cellar"]
    level: typing.Annotated[int, pydantic.Field(ge=0, le=9)]
    on: bool


class Person(pydantic.BaseModel):
    """Somebody invented."""

    name: typing.Annotated[str, pydantic.Field(max_length=20)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=120)]
    colours: typing.Annotated[list[typing.Literal["red", "green", "blue"]], pydantic.Field(max_length=3)]


def weather(city: str) -> str:
    """The weather in a city.

    Args:
      city: its name
    """
    return f"rain in {city}"


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def require(condition, text):
    if not condition:
        raise AssertionError(text)


def expect(error_type, call):
    """The error of this type that the call must end with."""
    try:
        seen = call()
    except error_type as error:
        return error
    raise AssertionError(f"no {error_type.__name__}, but {seen}")


def run_cases(cases, served):
    """Each of these functions is a case, called what its docstring says."""
    for case in cases:
        problem = None
        try:
            case(served)
        except Exception as error:  # whatever a client makes of an answer
            problem = f"{type(error).__name__}: {error}"[:600] or traceback.format_exc()
        print(json.dumps({"case": case.__doc__, "problem": problem}), flush=True)
