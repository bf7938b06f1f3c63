"""langchain-openai."""

import langchain_openai
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from cases import ASKING, CALLED, QUESTION, TOLD, Light, Person, require, weather

ASKED = HumanMessage("Is it raining?")


def chat_of(served, model, **more):
    return langchain_openai.ChatOpenAI(base_url=f"{served.url}/v1", api_key="none", model=model, max_retries=0, **more)


def texts(served):
    """langchain-openai: invoke, stream and batch"""
    chat = chat_of(served, served.chat, temperature=0, max_tokens=16, stream_usage=True)
    messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
    answer = chat.invoke(messages)
    require(answer.content and answer.usage_metadata["output_tokens"] <= 16, f"{answer}")
    whole = None
    for piece in chat.stream(messages):
        whole = piece if whole is None else whole + piece
    require(whole.content == answer.content, f"{whole.content!r} and {answer.content!r}")
    require(whole.usage_metadata["output_tokens"] == answer.usage_metadata["output_tokens"], f"{whole.usage_metadata}")
    require([one.content for one in chat.batch([messages, messages])] == [answer.content] * 2, "another text in a batch")


def responses(served):
    """langchain-openai: invoke and stream over responses"""
    chat = chat_of(served, served.chat, temperature=0, max_tokens=16, use_responses_api=True)
    answer = chat.invoke(QUESTION)
    require(answer.text and "".join(piece.text for piece in chat.stream(QUESTION)) == answer.text, f"{answer}")


def structured(served):
    """langchain-openai: with_structured_output by schema and by function, whole and streamed"""
    chat = chat_of(served, served.tools, temperature=1, seed=1)
    for method in ("json_schema", "function_calling"):
        chain = chat.with_structured_output(Person, method=method)
        person = chain.invoke("Invent a person.")
        require(isinstance(person, Person), f"{method}: {person}")
        require(list(chain.stream("Invent a person."))[-1] == person, f"{method}: another person when streamed")
    answer = chat.with_structured_output(method="json_mode").invoke("JSON!")
    require(isinstance(answer, dict), f"{answer}")


def tools(served):
    """langchain-openai: bind_tools, and the answer to the results of calls"""
    bound = chat_of(served, served.tools).bind_tools([tool(weather, parse_docstring=True)])
    answer = bound.invoke([ASKED])
    require(answer.text.strip() == ASKING and [call["args"] for call in answer.tool_calls] == CALLED, f"{answer}")
    whole = None
    for piece in bound.stream([ASKED]):
        whole = piece if whole is None else whole + piece
    require([call["args"] for call in whole.tool_calls] == CALLED, f"{whole}")
    results = [ToolMessage(weather(**call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls]
    require(bound.invoke([ASKED, answer, *results]).text == TOLD, "another answer to the results")


def forced_tools(served):
    """langchain-openai: bind_tools with tool_choice "any" and with a name"""
    for choice in ("any", "Light"):
        answer = chat_of(served, served.tools, temperature=1).bind_tools([Light], tool_choice=choice).invoke("Light!")
        require(answer.tool_calls and all(Light.model_validate(call["args"]) for call in answer.tool_calls), f"{answer}")


def embeddings(served):
    """langchain-openai: embeddings of documents and of a query"""
    words = langchain_openai.OpenAIEmbeddings(base_url=f"{served.url}/v1", api_key="none", model=served.words, max_retries=0,
                                              check_embedding_ctx_length=False)
    vectors = words.embed_documents(["a boat", "a ship"])
    require([len(vector) for vector in vectors] == [48, 48] and words.embed_query("a ship") == vectors[1], f"{vectors}")


CASES = [texts, responses, structured, tools, forced_tools, embeddings]
