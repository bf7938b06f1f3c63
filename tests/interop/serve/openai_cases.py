"""OpenAI's client for Python: texts, probabilities, structured output, vectors, errors."""

import asyncio

import openai

from cases import ANSWER, QUESTION, THOUGHT, Person, expect, require

LIMITS = {"temperature": 0, "max_tokens": 16}


def client_of(served):
    return openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)


def ask(served, **more):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    return client_of(served).chat.completions.create(**{"model": served.chat, "messages": messages, **LIMITS, **more})


def models(served):
    """openai: models.list and models.retrieve"""
    client = client_of(served)
    listed = [entry.id for entry in client.models.list()]
    require(listed == [served.chat, served.tools, served.words], f"{listed}")
    require(client.models.retrieve(served.tools).id == served.tools, "another model")


def chat(served):
    """openai: a chat completion, with usage and the reason of its end"""
    answer = ask(served)
    choice = answer.choices[0]
    require(choice.message.role == "assistant" and choice.message.content, f"{choice.message}")
    require(choice.finish_reason in ("stop", "length"), choice.finish_reason)
    usage = answer.usage
    require(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens and usage.completion_tokens <= 16, f"{usage}")


def chat_stream(served):
    """openai: a stream has the text of the whole answer, and its usage when asked for"""
    chunks = list(ask(served, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = ask(served)
    require(text == whole.choices[0].message.content, f"{text!r} and {whole.choices[0].message.content!r}")
    require(chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, f"{chunks[-1]}")
    require(all(chunk.usage is None for chunk in chunks[:-1]), "usage before the end")


def chat_helper(served):
    """openai: the helper that puts a stream together"""
    question = [{"role": "user", "content": QUESTION}]
    with client_of(served).chat.completions.stream(model=served.chat, messages=question, stop=[" "], **LIMITS) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    require(message.role == "assistant" and message.content, f"{message}")


def chat_choices(served):
    """openai: n answers of one seed, the same each time"""
    texts = [[choice.message.content for choice in ask(served, n=3, seed=5, temperature=1).choices] for _ in range(2)]
    require(texts[0] == texts[1] and len(set(texts[0])) > 1, f"{texts}")


def chat_logprobs(served):
    """openai: probabilities of tokens and of those next to them, whole and streamed"""
    asked = {"logprobs": True, "top_logprobs": 3, "max_tokens": 4}
    content = ask(served, **asked).choices[0].logprobs.content
    require(len(content) == 4 and all(len(token.top_logprobs) == 3 for token in content), f"{content}")
    require(all(token.logprob <= 0 and token.top_logprobs[0].logprob >= token.logprob for token in content), f"{content}")
    require(all(bytes(token.bytes).decode() == token.token for token in content), f"{content}")
    chunks = [chunk.choices[0] for chunk in ask(served, stream=True, **asked)]
    streamed = [token for choice in chunks if choice.logprobs for token in choice.logprobs.content]
    require(streamed == content, f"{streamed} and {content}")


def chat_stop(served):
    """openai: a stop string ends the answer and is not part of it"""
    first = ask(served).choices[0].message.content
    stop = first[len(first) // 2:][:3]
    answer = ask(served, stop=[stop]).choices[0]
    require(answer.message.content == first[:first.index(stop)] and answer.finish_reason == "stop", f"{answer} of {first!r}")


def structured(served):
    """openai: parse() makes an object of an answer that follows a schema"""
    for model in (served.chat, served.tools):
        for seed in range(3):
            answer = client_of(served).chat.completions.parse(
                model=model, messages=[{"role": "user", "content": "Invent a person."}], response_format=Person, seed=seed,
                temperature=1, max_tokens=1000)
            require(isinstance(answer.choices[0].message.parsed, Person), f"{answer}")


def structured_stream(served):
    """openai: the helper makes the same object of a stream"""
    for seed in range(3):
        asked = {"model": served.tools, "messages": [{"role": "user", "content": "Invent a person."}], "seed": seed,
                 "response_format": Person, "temperature": 1}
        with client_of(served).chat.completions.stream(**asked) as stream:
            done = [event.parsed for event in stream if event.type == "content.done"]
            streamed = stream.get_final_completion().choices[0].message.parsed
        whole = client_of(served).chat.completions.parse(**asked).choices[0].message.parsed
        require(isinstance(streamed, Person) and done == [streamed] and streamed == whole, f"{done}, {streamed}, {whole}")


def reasoning(served):
    """openai: reasoning is told from the answer, in chat and in responses, whole and streamed"""
    client = client_of(served)
    asked = {"model": served.tools, "extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
    question = [{"role": "user", "content": "Is it raining?"}]
    message = client.chat.completions.create(messages=question, **asked).choices[0].message
    require((message.reasoning_content, message.content) == (THOUGHT, ANSWER), f"{message}")
    deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(messages=question, stream=True, **asked)]
    require("".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == THOUGHT, f"{deltas}")
    require("".join(delta.content or "" for delta in deltas) == ANSWER, f"{deltas}")
    whole = client.responses.create(input=question, **asked)
    with client.responses.stream(input=question, **asked) as stream:
        final = stream.get_final_response()
    for answer in (whole, final):
        require([item.type for item in answer.output] == ["reasoning", "message"], f"{answer}")
        require((answer.output[0].content[0].text, answer.output_text) == (THOUGHT, ANSWER), f"{answer}")


def completions(served):
    """openai: completions of several prompts, whole and streamed"""
    client = client_of(served)
    answer = client.completions.create(model=served.chat, prompt=["The sea is", "A ship"], **LIMITS)
    require([choice.index for choice in answer.choices] == [0, 1], f"{answer}")
    pieces = list(client.completions.create(model=served.chat, prompt="The sea is", stream=True, **LIMITS))
    text = "".join(piece.choices[0].text for piece in pieces if piece.choices)
    require(text == answer.choices[0].text, f"{text!r} and {answer.choices[0].text!r}")


def completion_logprobs(served):
    """openai: probabilities of a completion and of its prompt"""
    choice = client_of(served).completions.create(model=served.chat, prompt="The sea is", echo=True, logprobs=2,
                                                  **LIMITS).choices[0]
    found = choice.logprobs
    require("".join(found.tokens) == choice.text and choice.text.startswith("The sea is"), f"{choice}")
    require(found.token_logprobs[0] is None and all(value <= 0 for value in found.token_logprobs[1:]), f"{found}")
    require(found.text_offset == [len("".join(found.tokens[:i])) for i in range(len(found.tokens))], f"{found.text_offset}")


def responses(served):
    """openai: a response, streamed too, and its helper"""
    client = client_of(served)
    asked = {"model": served.chat, "instructions": "Be brief.", "input": QUESTION, "temperature": 0, "max_output_tokens": 16}
    whole = client.responses.create(**asked)
    require(whole.output_text and whole.usage.output_tokens <= 16, f"{whole}")
    require(whole.output_text == ask(served).choices[0].message.content, f"{whole.output_text!r}")
    events = list(client.responses.create(**asked, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1].response
    require(text == whole.output_text == last.output_text, f"{text!r}, {last.output_text!r}, {whole.output_text!r}")
    require([event.sequence_number for event in events] == list(range(len(events))), "events are out of order")
    with client.responses.stream(**{**asked, "max_output_tokens": 400}) as stream:
        final = stream.get_final_response()
    require(final.status == "completed" and final.output_text.startswith(text), f"{final}")


def response_schema(served):
    """openai: responses.parse() makes an object of a response"""
    answer = client_of(served).responses.parse(model=served.tools, input="Invent a person.", text_format=Person, temperature=1)
    require(isinstance(answer.output_parsed, Person), f"{answer}")


def embeddings(served):
    """openai: vectors, as lists and in base64, in the order of their texts"""
    client = client_of(served)
    texts = ["a boat", "a ship", "a boat"]
    answer = client.embeddings.create(model=served.words, input=texts)  # asks for base64
    vectors = [entry.embedding for entry in answer.data]
    listed = client.embeddings.create(model=served.words, input=texts, encoding_format="float", dimensions=len(vectors[0]))
    require(all(len(vector) == 48 and abs(sum(x * x for x in vector) - 1) < 1e-5 for vector in vectors), f"{vectors}")
    require(vectors[0] == vectors[2] != vectors[1], "vectors are in another order")
    require(all(abs(a - b) < 1e-7 for one, other in zip(vectors, listed.data) for a, b in zip(one, other.embedding)),
            "base64 and lists differ")
    require([entry.index for entry in answer.data] == [0, 1, 2] and answer.usage.prompt_tokens > 0, f"{answer.usage}")
    raw = client.embeddings.create(model=served.words, input="a boat", encoding_format="base64").data[0].embedding
    require(isinstance(raw, str) and len(raw) == 48 * 4 * 4 / 3, f"{raw}")
    error = expect(openai.BadRequestError, lambda: client.embeddings.create(model=served.chat, input="a boat"))
    require(error.code == "model_cannot_embed", str(error))


def errors(served):
    """openai: errors are the client's own types"""
    error = expect(openai.NotFoundError, lambda: ask(served, model="nothing"))
    require("nothing" in str(error) and error.code == "model_not_found", str(error))
    for wrong in ({"temperature": -1}, {"n": 100000}, {"max_tokens": -5}):
        error = expect(openai.BadRequestError, lambda: ask(served, **wrong))  # noqa: B023 - called at once
        require(error.param == next(iter(wrong)) and error.param in str(error), str(error))


def leaves(served):
    """openai: a client that leaves in the middle of a stream disturbs nobody"""
    stream = ask(served, stream=True, max_tokens=200)
    next(iter(stream))
    stream.close()
    require(ask(served).choices[0].message.content, "no answer afterwards")


def many(served):
    """openai: 16 streams at once give what each gives alone"""
    async def one(client, number):
        stream = await client.chat.completions.create(
            model=served.chat, messages=[{"role": "user", "content": f"Count to {number}."}], stream=True, seed=number,
            max_tokens=12)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of(numbers):
        async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, number) for number in numbers))

    together = asyncio.run(all_of(range(16)))
    require(together[3:5] == [asyncio.run(all_of([number]))[0] for number in (3, 4)], f"{together[3:5]}")


CASES = [models, chat, chat_stream, chat_helper, chat_choices, chat_logprobs, chat_stop, structured, structured_stream, reasoning,
         completions, completion_logprobs, responses, response_schema, embeddings, errors, leaves, many]
