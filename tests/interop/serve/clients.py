"""usage: clients.py URL MODEL: the Python clients of OpenAI, LangChain, Ollama and Anthropic against a running server."""

import asyncio
import sys
import typing

import anthropic
import langchain_openai
import ollama
import openai
import pydantic
from langchain_core.messages import HumanMessage, SystemMessage

from cases import require, run_cases

QUESTION = "Name three colours."
LIMITS = {"temperature": 0, "max_tokens": 16}


def openai_client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def ask(url, model, **more):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    return openai_client(url).chat.completions.create(model=model, messages=messages, **{**LIMITS, **more})


# ---------------------------------------------------------------- OpenAI

def models(url, model):
    """openai: models.list and models.retrieve"""
    client = openai_client(url)
    require(model in [entry.id for entry in client.models.list()], "the model is not listed")
    require(client.models.retrieve(model).id == model, "another model")


def chat(url, model):
    """openai: a chat completion, with usage and the reason of its end"""
    answer = ask(url, model)
    choice = answer.choices[0]
    require(choice.message.role == "assistant" and choice.message.content, f"{choice.message}")
    require(choice.finish_reason in ("stop", "length"), choice.finish_reason)
    usage = answer.usage
    require(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens and usage.completion_tokens <= 16, f"{usage}")


def chat_stream(url, model):
    """openai: a stream has the text of the whole answer, and its usage when asked for"""
    chunks = list(ask(url, model, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = ask(url, model)
    require(text == whole.choices[0].message.content, f"{text!r} and {whole.choices[0].message.content!r}")
    require(chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, f"{chunks[-1]}")
    require(all(chunk.usage is None for chunk in chunks[:-1]), "usage before the end")


def chat_helper(url, model):
    """openai: the helper that puts a stream together"""
    with openai_client(url).chat.completions.stream(model=model, messages=[{"role": "user", "content": QUESTION}], stop=[" "],
                                                    **LIMITS) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    require(message.role == "assistant" and message.content, f"{message}")


def chat_choices(url, model):
    """openai: n answers of one seed, the same each time"""
    texts = [[choice.message.content for choice in ask(url, model, n=3, seed=5, temperature=1).choices] for _ in range(2)]
    require(texts[0] == texts[1] and len(set(texts[0])) > 1, f"{texts}")


def chat_logprobs(url, model):
    """openai: probabilities of tokens and of those next to them"""
    content = ask(url, model, logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
    require(len(content) == 4 and all(len(token.top_logprobs) == 3 for token in content), f"{content}")
    require(all(token.logprob <= 0 and token.top_logprobs[0].logprob >= token.logprob for token in content), f"{content}")


def chat_stop(url, model):
    """openai: a stop string ends the answer and is not part of it"""
    first = ask(url, model).choices[0].message.content
    stop = first[len(first) // 2:][:3]
    answer = ask(url, model, stop=[stop]).choices[0]
    require(answer.message.content == first[:first.index(stop)] and answer.finish_reason == "stop", f"{answer} of {first!r}")


def structured(url, model):
    """openai: parse() makes an object of an answer that follows a schema"""
    class Person(pydantic.BaseModel):
        name: typing.Annotated[str, pydantic.Field(max_length=20)]
        age: typing.Annotated[int, pydantic.Field(ge=0, le=120)]
        colours: typing.Annotated[list[typing.Literal["red", "green", "blue"]], pydantic.Field(max_length=3)]

    for seed in range(3):
        answer = openai_client(url).chat.completions.parse(
            model=model, messages=[{"role": "user", "content": "Invent a person."}], response_format=Person, seed=seed,
            temperature=1, max_tokens=400)
        require(isinstance(answer.choices[0].message.parsed, Person), f"{answer}")


def completions(url, model):
    """openai: completions of several prompts, whole and streamed"""
    client = openai_client(url)
    answer = client.completions.create(model=model, prompt=["The sea is", "A ship"], **LIMITS)
    require([choice.index for choice in answer.choices] == [0, 1], f"{answer}")
    pieces = list(client.completions.create(model=model, prompt="The sea is", stream=True, **LIMITS))
    text = "".join(piece.choices[0].text for piece in pieces if piece.choices)
    require(text == answer.choices[0].text, f"{text!r} and {answer.choices[0].text!r}")


def errors(url, model):
    """openai: errors are the client's own types"""
    try:
        openai_client(url).chat.completions.create(model="nothing", messages=[{"role": "user", "content": "x"}])
        raise AssertionError("an unknown model was found")
    except openai.NotFoundError as error:
        require("nothing" in str(error), str(error))
    for wrong in ({"temperature": -1}, {"n": 100000}, {"max_tokens": -5}):
        try:
            ask(url, model, **wrong)
            raise AssertionError(f"{wrong} was taken")
        except openai.BadRequestError as error:
            require(next(iter(wrong)) in str(error), str(error))


def leaves(url, model):
    """openai: a client that leaves in the middle of a stream disturbs nobody"""
    stream = ask(url, model, stream=True, max_tokens=200)
    next(iter(stream))
    stream.close()
    require(ask(url, model).choices[0].message.content, "no answer afterwards")


def many(url, model):
    """openai: 16 streams at once give what each gives alone"""
    async def one(client, number):
        stream = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": f"Count to {number}."}],
                                                      stream=True, seed=number, max_tokens=12)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of(numbers):
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in numbers))

    together = asyncio.run(all_of(range(16)))
    require(together[3:5] == [asyncio.run(all_of([number]))[0] for number in (3, 4)], f"{together[3:5]}")


# ---------------------------------------------------------------- the others

def langchain(url, model):
    """langchain-openai: invoke and stream"""
    chat = langchain_openai.ChatOpenAI(base_url=f"{url}/v1", api_key="none", model=model, temperature=0, max_tokens=16, max_retries=0)
    messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    answer = chat.invoke(messages)
    require(answer.content and answer.usage_metadata["output_tokens"] <= 16, f"{answer}")
    require("".join(piece.content for piece in chat.stream(messages)) == answer.content, "another text when streamed")


def ollama_chat(url, model):
    """ollama: chat and generate, whole and streamed; list, show"""
    client = ollama.Client(host=url)
    options = {"temperature": 0, "num_predict": 16}
    messages = [{"role": "user", "content": QUESTION}]
    answer = client.chat(model=model, messages=messages, options=options)
    require(answer.done and answer.message.content and answer.eval_count <= 16, f"{answer}")
    text = "".join(piece.message.content for piece in client.chat(model=model, messages=messages, options=options, stream=True))
    require(text == answer.message.content, f"{text!r} and {answer.message.content!r}")
    require(client.generate(model=model, prompt="The sea is", options=options).response, "no text")
    require(any(entry.model.split(":")[0] == model for entry in client.list().models), "the model is not listed")
    require(client.show(model).modelinfo is not None, "no information")
    try:
        client.chat(model="nothing", messages=messages)
        raise AssertionError("an unknown model was found")
    except ollama.ResponseError as error:
        require(error.status_code == 404 and "nothing" in error.error, f"{error}")


def anthropic_messages(url, model):
    """anthropic: messages, whole and streamed, and counting tokens"""
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
    greedy = {"extra_body": {"temperature": 0}}
    question = {"model": model, "system": "Be brief.", "messages": [{"role": "user", "content": QUESTION}]}
    answer = client.messages.create(**question, max_tokens=16, **greedy)
    require(answer.content[0].text and answer.stop_reason in ("end_turn", "max_tokens"), f"{answer}")
    with client.messages.stream(**question, max_tokens=16, **greedy) as stream:
        text = "".join(stream.text_stream)
    require(text == answer.content[0].text, f"{text!r} and {answer.content[0].text!r}")
    counted = answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    require(client.messages.count_tokens(**question).input_tokens == counted, f"{answer.usage}")
    try:
        client.messages.create(**{**question, "model": "nothing"}, max_tokens=16)
        raise AssertionError("an unknown model was found")
    except anthropic.NotFoundError as error:
        require("nothing" in str(error), str(error))


if __name__ == "__main__":
    run_cases([models, chat, chat_stream, chat_helper, chat_choices, chat_logprobs, chat_stop, structured, completions, errors, leaves,
               many, langchain, ollama_chat, anthropic_messages], *sys.argv[1:])
