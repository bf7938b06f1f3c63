"""ballast.llama.Llama: the shapes that llama-cpp-python returns, and the texts that ballast.load() writes."""

from __future__ import annotations

import json

import pytest
from program import DATA, MODELS

import ballast
from ballast.llama import Llama, LlamaGrammar

TINY = DATA / "gguf" / "tiny" / "tiny_llama.f32.gguf"
TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"
MESSAGES = [{"role": "system", "content": "1 2"}, {"role": "user", "content": "3 4"}]


@pytest.fixture(scope="module")
def llm():
    with Llama(model_path=str(TINY), n_gpu_layers=-1, verbose=False, chat_template=TEMPLATE) as opened:
        yield opened


def test_a_completion_has_its_shape_and_its_text(llm):
    answer = llm.create_completion("1 2 3", max_tokens=6, temperature=0)
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"
    assert answer["model"] == str(TINY)
    (choice,) = answer["choices"]
    assert set(choice) == {"text", "index", "logprobs", "finish_reason"}
    assert choice["finish_reason"] in ("length", "stop")
    with ballast.load(TINY) as model:
        assert choice["text"] == model.generate("1 2 3", max_tokens=6, temperature=0).text
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["completion_tokens"] <= 6


def test_calling_it_is_completing(llm):
    assert llm("1 2 3", max_tokens=4, temperature=0)["choices"] == (
        llm.create_completion("1 2 3", max_tokens=4, temperature=0)["choices"]
    )


def test_a_stream_adds_up_to_the_answer(llm):
    whole = llm.create_completion("1 2 3", max_tokens=8, temperature=0)
    chunks = list(llm.create_completion("1 2 3", max_tokens=8, temperature=0, stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


def test_a_chat_has_its_shape(llm):
    answer = llm.create_chat_completion(messages=MESSAGES, max_tokens=6, temperature=0)
    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("stop", "length")
    chunks = list(llm.create_chat_completion(messages=MESSAGES, max_tokens=6, temperature=0, stream=True))
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant"}
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == choice["message"]["content"]
    assert chunks[-1]["choices"][0]["delta"] == {}


def test_log_probabilities(llm):
    choice = llm("1 2 3", max_tokens=3, temperature=0, logprobs=1)["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(logprobs["text_offset"])
    assert all(value <= 0 for value in logprobs["token_logprobs"])


def joined(chunks):
    """What the log-probabilities of a stream's chunks add up to."""
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    return {key: [value for part in parts if part for value in part[key]] for key in next(filter(None, parts))}


def test_a_stream_has_the_log_probabilities_of_the_answer(llm):
    options = {"max_tokens": 6, "temperature": 0, "logprobs": 1}
    whole = llm("1 2 3", **options)["choices"][0]
    chunks = list(llm("1 2 3", stream=True, **options))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["text"]
    assert joined(chunks) == whole["logprobs"]
    whole = llm.create_chat_completion(MESSAGES, **options)["choices"][0]
    chunks = list(llm.create_chat_completion(MESSAGES, stream=True, **options))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole["message"]["content"]
    assert joined(chunks) == whole["logprobs"]
    plain = llm("1 2 3", max_tokens=6, temperature=0, stream=True)
    assert all(chunk["choices"][0]["logprobs"] is None for chunk in plain)


def test_a_chat_is_answered_at_a_temperature_of_a_fifth(llm):
    def answer(**options):
        return llm.create_chat_completion(MESSAGES, max_tokens=24, seed=5, **options)["choices"][0]["message"]["content"]

    assert answer() == answer(temperature=0.2)
    assert answer() != answer(temperature=2.0)


def test_tokens_there_and_back(llm):
    ids = llm.tokenize(b"1 2 3", add_bos=False)
    assert llm.detokenize(ids).decode().strip() == "1 2 3"
    assert llm.n_vocab() > 0
    assert llm.n_ctx() > 0


def test_a_seed_decides(llm):
    first, second = (llm("1 2 3", max_tokens=8, temperature=1.0, seed=3)["choices"][0]["text"] for _ in range(2))
    assert first == second


def test_echo_repeats_the_prompt(llm):
    plain = llm("1 2 3", max_tokens=4, temperature=0)["choices"][0]["text"]
    assert llm("1 2 3", max_tokens=4, temperature=0, echo=True)["choices"][0]["text"] == "1 2 3" + plain
    ids = llm.tokenize(b"1 2 3")
    shown = llm.detokenize(ids).decode()
    assert shown.strip() == "1 2 3"
    assert llm(ids, max_tokens=4, temperature=0, echo=True)["choices"][0]["text"] == shown + plain
    chunks = list(llm(ids, max_tokens=4, temperature=0, echo=True, stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == shown + plain


def test_what_it_has_not_is_refused(llm):
    with pytest.raises(ValueError, match="logit_bias"):
        llm("1", logit_bias={1: 2.0})
    with pytest.raises(TypeError, match="colour"):
        llm("1", colour="blue")
    with pytest.raises(TypeError, match="colour"):
        Llama(str(TINY), colour="blue")
    with pytest.raises(ValueError, match="n_ctx"):
        Llama(str(TINY), n_ctx=10**6)
    with pytest.raises(FileNotFoundError):
        Llama("nowhere.gguf")


# ---------------------------------------------------------------- structured output

MASTS = {"type": "object", "properties": {"masts": {"type": "integer", "minimum": 1, "maximum": 3}}, "required": ["masts"]}


@pytest.fixture(scope="module")
def writer():
    """A model whose tokens spell every byte."""
    with Llama(MODELS / "default", chat_template=TEMPLATE) as opened:
        yield opened


def test_a_grammar_decides_what_is_written(writer, tmp_path):
    text = 'root ::= "yes" | "no"'
    (tmp_path / "answer.gbnf").write_text(text)
    grammars = [
        LlamaGrammar.from_string(text, verbose=False),
        LlamaGrammar.from_file(tmp_path / "answer.gbnf"),
        ballast.Constraint.of_grammar(text),
    ]
    for seed, grammar in enumerate(grammars):
        choice = writer("Is it?", grammar=grammar, temperature=1.0, seed=seed)["choices"][0]
        assert choice["text"] in ("yes", "no")
        assert choice["finish_reason"] == "stop"
        answer = writer.create_chat_completion(MESSAGES, grammar=grammar, temperature=1.0, seed=seed)
        assert answer["choices"][0]["message"]["content"] in ("yes", "no")
    schema = LlamaGrammar.from_json_schema(json.dumps(MASTS))
    assert 1 <= json.loads(writer("A ship:", grammar=schema, max_tokens=60)["choices"][0]["text"])["masts"] <= 3


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_object", "schema": MASTS},
        {"type": "json_schema", "json_schema": {"name": "ship", "strict": True, "schema": MASTS}},
    ],
)
def test_a_response_format_decides_what_is_answered(writer, form):
    for seed in range(4):
        options = {"response_format": form, "temperature": 1.0, "seed": seed, "max_tokens": 60}
        choice = writer.create_chat_completion(MESSAGES, **options)["choices"][0]
        assert choice["finish_reason"] == "stop"
        assert 1 <= json.loads(choice["message"]["content"])["masts"] <= 3
        chunks = list(writer.create_chat_completion(MESSAGES, stream=True, **options))
        parts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
        assert "".join(parts) == choice["message"]["content"]
    assert json.loads(writer("A ship:", **options)["choices"][0]["text"])["masts"] <= 3


def test_a_response_format_may_ask_for_any_object_or_for_text(writer):
    options = {"temperature": 1.0, "max_tokens": 100}
    for seed in range(4):
        form = {"type": "json_object"}
        choice = writer.create_chat_completion(MESSAGES, response_format=form, seed=seed, **options)["choices"][0]
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)
    plain = writer("It is", max_tokens=5)["choices"]
    assert writer("It is", max_tokens=5, response_format={"type": "text"})["choices"] == plain
    assert writer("It is", max_tokens=5, response_format=None, grammar=None)["choices"] == plain


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"grammar": "root ::= \"a\""}, TypeError, "LlamaGrammar"),
        ({"response_format": {"type": "xml"}}, ValueError, "xml"),
        ({"response_format": "json"}, ValueError, "response_format"),
        ({"response_format": {"type": "json_schema"}}, ValueError, "schema"),
        ({"response_format": {"type": "json_object", "schema": {"not": {}}}}, ballast.FormatError, "/not"),
        (
            {"response_format": {"type": "json_object"}, "grammar": ballast.Constraint.of_regex("a")},
            ValueError,
            "one of them",
        ),
    ],
)
def test_what_is_wrong_with_a_form_is_said(writer, options, error, message):
    with pytest.raises(error, match=message):
        writer.create_chat_completion(MESSAGES, **options)
    with pytest.raises(error, match=message):
        writer("1", **options)


def test_n_ctx_bounds_prompt_and_text():
    with Llama(str(TINY), n_ctx=8) as small:
        used = small("1 2", max_tokens=None, temperature=0)["usage"]
        assert used["total_tokens"] <= 8
        with pytest.raises(ValueError, match="8 in total"):
            small("1 2 3 4 5 6 7 8 9 10 11 12")


def test_embeddings_need_a_model_that_embeds(llm):
    with pytest.raises(ValueError, match="does not support"):
        llm.create_embedding("1 2")


def test_any_model_will_do():
    with Llama(MODELS / "default") as llm:
        assert llm("It is", max_tokens=3)["usage"]["completion_tokens"] == 3
