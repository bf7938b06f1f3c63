"""Ollama's client for Python."""

import ollama

from cases import ANSWER, ASKING, CALLED, QUESTION, THOUGHT, TOLD, Person, expect, require, weather

OPTIONS = {"temperature": 0, "num_predict": 16}
MESSAGES = [{"role": "user", "content": QUESTION}]


def chat(served):
    """ollama: chat, whole and streamed"""
    client = ollama.Client(host=served.url)
    answer = client.chat(model=served.chat, messages=MESSAGES, options=OPTIONS)
    require(answer.done and answer.message.content and answer.eval_count <= 16, f"{answer}")
    pieces = list(client.chat(model=served.chat, messages=MESSAGES, options=OPTIONS, stream=True))
    text = "".join(piece.message.content for piece in pieces)
    require(text == answer.message.content, f"{text!r} and {answer.message.content!r}")
    require(pieces[-1].done and pieces[-1].done_reason == answer.done_reason, f"{pieces[-1]}")


def generate(served):
    """ollama: generate, whole and streamed"""
    client = ollama.Client(host=served.url)
    answer = client.generate(model=served.chat, prompt="The sea is", options=OPTIONS)
    require(answer.response and answer.eval_count <= 16 and answer.total_duration > 0, f"{answer}")
    text = "".join(piece.response for piece in client.generate(model=served.chat, prompt="The sea is", options=OPTIONS, stream=True))
    require(text == answer.response, f"{text!r} and {answer.response!r}")


def logprobs(served):
    """ollama: probabilities of tokens and of those next to them"""
    answer = ollama.Client(host=served.url).chat(model=served.chat, messages=MESSAGES, options=OPTIONS, logprobs=True, top_logprobs=2)
    require(len(answer.logprobs) == answer.eval_count and all(len(token.top_logprobs) == 2 for token in answer.logprobs), f"{answer}")
    require("".join(token.token for token in answer.logprobs).startswith(answer.message.content), f"{answer}")


def structured(served):
    """ollama: format with a schema, in chat and generate"""
    client = ollama.Client(host=served.url)
    asked = {"model": served.tools, "format": Person.model_json_schema(), "options": {"temperature": 1, "seed": 3}}
    Person.model_validate_json(client.chat(messages=MESSAGES, **asked).message.content)
    Person.model_validate_json(client.generate(prompt="Invent a person.", **asked).response)


def tools(served):
    """ollama: a Python function as a tool, called whole and streamed, and the answer to its results"""
    client = ollama.Client(host=served.url)
    message = client.chat(model=served.tools, messages=MESSAGES, tools=[weather]).message
    require(message.content.strip() == ASKING, f"{message}")
    require([dict(call.function.arguments) for call in message.tool_calls] == CALLED, f"{message}")
    pieces = client.chat(model=served.tools, messages=MESSAGES, tools=[weather], stream=True)
    streamed = [dict(call.function.arguments) for piece in pieces for call in piece.message.tool_calls or []]
    require(streamed == CALLED, f"{streamed}")
    results = [{"role": "tool", "tool_name": call.function.name, "content": weather(**call.function.arguments)}
               for call in message.tool_calls]
    told = client.chat(model=served.tools, messages=[*MESSAGES, message, *results], tools=[weather]).message
    require(told.content == TOLD and not told.tool_calls, f"{told}")


def thinking(served):
    """ollama: think, in chat and generate, whole and streamed"""
    client = ollama.Client(host=served.url)
    message = client.chat(model=served.tools, messages=MESSAGES, think=True).message
    require((message.thinking, message.content) == (THOUGHT, ANSWER), f"{message}")
    pieces = [piece.message for piece in client.chat(model=served.tools, messages=MESSAGES, think=True, stream=True)]
    require("".join(piece.thinking or "" for piece in pieces) == THOUGHT, f"{pieces}")
    require("".join(piece.content for piece in pieces) == ANSWER, f"{pieces}")
    answer = client.generate(model=served.tools, prompt=QUESTION, think=True)
    require((answer.thinking, answer.response) == (THOUGHT, ANSWER), f"{answer}")


def embed(served):
    """ollama: embed, one text and several"""
    client = ollama.Client(host=served.url)
    several = client.embed(model=served.words, input=["a boat", "a ship"])
    require([len(vector) for vector in several.embeddings] == [48, 48], f"{several}")
    require(client.embed(model=served.words, input="a ship").embeddings[0] == several.embeddings[1], "another vector alone")


def models(served):
    """ollama: list, ps and show"""
    client = ollama.Client(host=served.url)
    for models in (client.list().models, client.ps().models):
        require([entry.model for entry in models] == [served.chat, served.tools, served.words], f"{models}")
        require(all(entry.size > 0 and entry.digest for entry in models), f"{models}")
    shown = {name: client.show(name) for name in (served.chat, served.tools, served.words)}
    require(all(entry.modelinfo and entry.details.family for entry in shown.values()), f"{shown}")
    capabilities = [shown[name].capabilities for name in (served.chat, served.tools, served.words)]
    require(capabilities == [["completion"], ["completion", "tools"], ["embedding"]], f"{capabilities}")


def errors(served):
    """ollama: an unknown model is a ResponseError"""
    error = expect(ollama.ResponseError, lambda: ollama.Client(host=served.url).chat(model="nothing", messages=MESSAGES))
    require(error.status_code == 404 and "nothing" in error.error, f"{error}")


CASES = [chat, generate, logprobs, structured, tools, thinking, embed, models, errors]
