"""Anthropic's client for Python."""

import typing

import anthropic
import pydantic

from cases import ANSWER, ASKING, CALLED, CITY, QUESTION, THOUGHT, TOLD, Light, expect, require, weather

ASKED = [{"role": "user", "content": "Is it raining?"}]
WEATHER = {"name": "weather", "description": weather.__doc__, "input_schema": CITY}


class Door(pydantic.BaseModel):
    """Without numbers: this client does not send their bounds as a part of the schema, but checks them."""

    room: typing.Literal["kitchen", "cellar"]
    is_open: bool


def client_of(served):
    return anthropic.Anthropic(base_url=served.url, api_key="none", max_retries=0)


def question(served):
    return {"model": served.chat, "system": "Be brief.", "messages": [{"role": "user", "content": QUESTION}]}


def messages(served):
    """anthropic: messages, whole and streamed"""
    client = client_of(served)
    limits = {"max_tokens": 16, "extra_body": {"temperature": 0}}
    answer = client.messages.create(**question(served), **limits)
    require(answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens"), f"{answer}")
    with client.messages.stream(**question(served), **limits) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    require(text == answer.content[0].text == final.content[0].text, f"{text!r} and {answer.content[0].text!r}")
    require(final.stop_reason == answer.stop_reason and final.usage.output_tokens == answer.usage.output_tokens, f"{final}")


def count_tokens(served):
    """anthropic: count_tokens counts what messages use"""
    client = client_of(served)
    usage = client.messages.create(**question(served), max_tokens=1).usage
    counted = client.messages.count_tokens(**question(served)).input_tokens
    require(counted == usage.input_tokens + (usage.cache_read_input_tokens or 0), f"{counted} and {usage}")
    more = client.messages.count_tokens(model=served.tools, messages=ASKED, tools=[WEATHER]).input_tokens
    require(more > client.messages.count_tokens(model=served.tools, messages=ASKED).input_tokens, "tools count nothing")


def tools(served):
    """anthropic: calls of tools, whole and streamed, and the answer to their results"""
    client = client_of(served)
    asked = {"model": served.tools, "max_tokens": 100, "tools": [WEATHER]}
    answer = client.messages.create(messages=ASKED, **asked)
    calls = [block for block in answer.content if block.type == "tool_use"]
    require(answer.content[0].text.strip() == ASKING and answer.stop_reason == "tool_use", f"{answer}")
    require([call.input for call in calls] == CALLED and len({call.id for call in calls}) == 2, f"{answer}")
    with client.messages.stream(messages=ASKED, **asked) as stream:
        final = stream.get_final_message()
    require([block.input for block in final.content if block.type == "tool_use"] == CALLED, f"{final}")
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": weather(**call.input)} for call in calls]
    told = client.messages.create(messages=[*ASKED, {"role": "assistant", "content": answer.content},
                                            {"role": "user", "content": results}], **asked)
    require(told.content[0].text == TOLD and told.stop_reason == "end_turn", f"{told}")


def tool_runner(served):
    """anthropic: the helper that calls Python functions until the model has its answer"""
    cities = []

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return "rain"

    last = client_of(served).beta.messages.tool_runner(model=served.tools, max_tokens=100, messages=ASKED,
                                                       tools=[weather]).until_done()
    require(cities == [call["city"] for call in CALLED] and last.content[0].text == TOLD, f"{cities}, {last}")


def forced_tools(served):
    """anthropic: tool_choice "any" and a name"""
    light = {"name": "Light", "description": Light.__doc__, "input_schema": Light.model_json_schema()}
    for choice in ({"type": "any"}, {"type": "tool", "name": "Light", "disable_parallel_tool_use": True}):
        answer = client_of(served).messages.create(model=served.tools, max_tokens=1000, messages=ASKED, tools=[light],
                                                   tool_choice=choice, extra_body={"temperature": 1})
        require(answer.content and all(Light.model_validate(block.input) for block in answer.content), f"{answer}")


def structured(served):
    """anthropic: parse() makes an object of an answer that follows a schema"""
    answer = client_of(served).messages.parse(model=served.tools, max_tokens=1000, messages=ASKED, output_format=Door,
                                              extra_body={"temperature": 1})
    require(isinstance(answer.parsed_output, Door), f"{answer}")


def thinking(served):
    """anthropic: blocks of thought, whole and streamed"""
    client = client_of(served)
    asked = {"model": served.tools, "max_tokens": 2000, "messages": ASKED, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with client.messages.stream(**asked) as stream:
        final = stream.get_final_message()
    for answer in (client.messages.create(**asked), final):
        require([block.type for block in answer.content] == ["thinking", "text"], f"{answer}")
        require((answer.content[0].thinking, answer.content[1].text) == (THOUGHT, ANSWER), f"{answer}")


def errors(served):
    """anthropic: an unknown model is a NotFoundError"""
    wrong = {**question(served), "model": "nothing"}
    error = expect(anthropic.NotFoundError, lambda: client_of(served).messages.create(**wrong, max_tokens=16))
    require("nothing" in str(error), str(error))


CASES = [messages, count_tokens, tools, tool_runner, forced_tools, structured, thinking, errors]
