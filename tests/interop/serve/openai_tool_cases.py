"""OpenAI's client for Python: calls of tools."""

import json

import openai

from cases import ASKING, CALLED, CITY, TOLD, Light, expect, require, weather
from openai_cases import client_of

ASKED = [{"role": "user", "content": "Is it raining?"}]
WEATHER = {"type": "function", "function": {"name": "weather", "description": weather.__doc__, "parameters": CITY}}
FORCED = {"messages": ASKED, "tools": [openai.pydantic_function_tool(Light)], "tool_choice": "required", "temperature": 1}


def arguments_of(calls):
    return [json.loads(call.function.arguments) for call in calls]


def call_results(calls):
    return [{"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))} for call in calls]


def calls(served):
    """openai: text and parallel calls of a model that calls by itself, and the answer to their results"""
    client = client_of(served)
    answer = client.chat.completions.create(model=served.tools, messages=ASKED, tools=[WEATHER]).choices[0]
    message = answer.message
    require(message.content.strip() == ASKING and answer.finish_reason == "tool_calls", f"{answer}")
    require(arguments_of(message.tool_calls) == CALLED, f"{message}")
    require({call.function.name for call in message.tool_calls} == {"weather"}, f"{message}")
    require(len({call.id for call in message.tool_calls}) == 2, f"{message}")
    told = client.chat.completions.create(model=served.tools, messages=[*ASKED, message, *call_results(message.tool_calls)],
                                          tools=[WEATHER]).choices[0]
    require(told.message.content == TOLD and told.finish_reason == "stop" and not told.message.tool_calls, f"{told}")


def streamed_calls(served):
    """openai: the same in a stream, piece by piece and put together by the helper"""
    client = client_of(served)
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(model=served.tools, messages=ASKED, tools=[WEATHER],
                                                                           stream=True)]
    require("".join(choice.delta.content or "" for choice in chunks).strip() == ASKING, f"{chunks}")
    pieces = [piece for choice in chunks for piece in choice.delta.tool_calls or []]
    arguments = ["".join(piece.function.arguments or "" for piece in pieces if piece.index == index) for index in (0, 1)]
    require([json.loads(text) for text in arguments] == CALLED, f"{pieces}")
    require(chunks[-1].finish_reason == "tool_calls", f"{chunks[-1]}")
    with client.chat.completions.stream(model=served.tools, messages=ASKED, tools=[WEATHER]) as stream:
        final = stream.get_final_completion().choices[0]
    require(arguments_of(final.message.tool_calls) == CALLED and final.finish_reason == "tool_calls", f"{final}")


def required(served):
    """openai: tool_choice "required" gives calls that parse() makes objects of, whole and streamed"""
    client = client_of(served)
    for seed in range(4):
        whole = client.chat.completions.parse(model=served.tools, seed=seed, **FORCED).choices[0]
        lights = [call.function.parsed_arguments for call in whole.message.tool_calls]
        require(lights and all(isinstance(light, Light) for light in lights) and not whole.message.content, f"{whole}")
        with client.chat.completions.stream(model=served.tools, seed=seed, **FORCED) as stream:
            done = [event.parsed_arguments for event in stream if event.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0]
        require(done == lights and [call.function.parsed_arguments for call in final.message.tool_calls] == lights, f"{done}, {final}")


def single(served):
    """openai: parallel_tool_calls false gives the first call alone"""
    choice = client_of(served).chat.completions.create(model=served.tools, messages=ASKED, tools=[WEATHER],
                                                       parallel_tool_calls=False).choices[0]
    require(arguments_of(choice.message.tool_calls) == CALLED[:1] and choice.finish_reason == "tool_calls", f"{choice}")


def chosen(served):
    """openai: tool_choice names a tool, forbids all, or is refused"""
    client = client_of(served)
    asked = {"model": served.tools, "messages": ASKED, "tools": [openai.pydantic_function_tool(Light), WEATHER]}
    named = {"type": "function", "function": {"name": "Light"}}
    message = client.chat.completions.create(**asked, tool_choice=named, temperature=1).choices[0].message
    require(all(Light.model_validate_json(call.function.arguments) for call in message.tool_calls), f"{message}")
    require({call.function.name for call in message.tool_calls} == {"Light"}, f"{message}")
    require(not client.chat.completions.create(**asked, tool_choice="none").choices[0].message.tool_calls, "a forbidden call")
    named["function"]["name"] = "unknown"
    error = expect(openai.BadRequestError, lambda: client.chat.completions.create(**asked, tool_choice=named))
    require("unknown" in str(error), str(error))
    expect(openai.BadRequestError, lambda: client.chat.completions.create(**{**asked, "model": served.chat}))


def response_calls(served):
    """openai: calls in responses, whole and streamed, and the answer to their results"""
    client = client_of(served)
    tool = {"type": "function", "name": "weather", "description": weather.__doc__, "parameters": CITY, "strict": True}
    asked = {"model": served.tools, "tools": [tool]}
    whole = client.responses.create(input="Is it raining?", **asked)
    found = [item for item in whole.output if item.type == "function_call"]
    require([json.loads(item.arguments) for item in found] == CALLED and whole.output_text.strip() == ASKING, f"{whole}")
    with client.responses.stream(input="Is it raining?", **asked) as stream:
        done = [event for event in stream if event.type == "response.function_call_arguments.done"]
        final = stream.get_final_response()
    require([json.loads(event.arguments) for event in done] == CALLED, f"{done}")
    require([item.type for item in final.output] == [item.type for item in whole.output], f"{final}")
    results = [{"type": "function_call_output", "call_id": item.call_id, "output": weather(**json.loads(item.arguments))}
               for item in found]
    told = client.responses.create(input=[*ASKED, *whole.output, *results], **asked)
    require(told.output_text == TOLD, f"{told}")


def response_required(served):
    """openai: responses with a forced call, parsed by the client"""
    answer = client_of(served).responses.parse(model=served.tools, input="Light!", tools=[openai.pydantic_function_tool(Light)],
                                               tool_choice="required", temperature=1)
    lights = [item.parsed_arguments for item in answer.output if item.type == "function_call"]
    require(lights and all(isinstance(light, Light) for light in lights), f"{answer}")


CASES = [calls, streamed_calls, single, required, chosen, response_calls, response_required]
