"""``Llama`` in the manner of llama-cpp-python: change the import, keep the calls.

    from ballast.llama import Llama

    llm = Llama(model_path="model.gguf")
    llm.create_chat_completion(messages=[{"role": "user", "content": "Hello"}])

Results are dictionaries of the same shape. Arguments that steer llama.cpp's own memory and devices (``n_gpu_layers``,
``n_batch``, ``use_mmap``, ...) are accepted and have no meaning here; unknown ones raise TypeError. What Ballast does not
compute (logit bias, mirostat, ...) raises ValueError instead of being ignored.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, overload

from ballast._inputs import Message, PathLike
from ballast.constraint import Constraint
from ballast.models import Generation, Model, Token
from ballast.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing import TypedDict

    class CompletionUsage(TypedDict):
        prompt_tokens: int
        completion_tokens: int
        total_tokens: int


__all__ = ["Llama", "LlamaGrammar"]

Completion = dict[str, Any]
Prompt = Union[str, Sequence[int]]

# Arguments of llama-cpp-python's constructor that choose memory, devices or checks of llama.cpp.
_NO_MEANING = frozenset(
    "n_gpu_layers split_mode main_gpu tensor_split use_mmap use_mlock n_batch n_ubatch n_threads_batch offload_kqv "
    "flash_attn op_offload swa_full numa verbose last_n_tokens_size logits_all embedding no_perf rpc_servers "
    "check_tensors".split()
)
# Arguments of completions that change what is written in ways that Ballast has not, with the values that change nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "suffix": (None, ""),
    "best_of": (None, 1),
    "n": (None, 1),
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "present_penalty": (0, None),
    "tfs_z": (1, None),
    "typical_p": (1, None),
    "mirostat_mode": (0, None),
    "mirostat_tau": (5, None),
    "mirostat_eta": (0.1, None),
    "logits_processor": (None,),
    "stopping_criteria": (None,),
    "logit_bias": (None,),
    "function_call": (None, "none"),
    "functions": (None,),
    "tool_choice": (None, "none", "auto"),
}


class LlamaGrammar:
    """A grammar for ``grammar=``, as in llama-cpp-python. ``verbose`` has no meaning here.

    >>> answer = LlamaGrammar.from_string('root ::= "yes" | "no"')
    >>> with Llama("models/default") as llm:
    ...     llm.create_completion("Is it a truth?", grammar=answer)["choices"][0]["text"] in ("yes", "no")
    True
    """

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        """What the rule "root" of a text in GBNF matches."""
        return cls(Constraint.of_grammar(grammar))

    @classmethod
    def from_file(cls, file: PathLike, verbose: bool = True) -> LlamaGrammar:
        """The same, of a file."""
        return cls.from_string(Path(os.fspath(file)).read_text(encoding="utf-8"), verbose)

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar:
        """JSON that the schema accepts. It is not turned into GBNF, so that more of the schema is enforced."""
        return cls(Constraint.of_schema(json_schema))

    def __repr__(self) -> str:
        return f"LlamaGrammar({self.constraint!r})"


class Llama:
    """A model of a GGUF file (or of anything else that :func:`ballast.load` opens), with llama-cpp-python's methods.

    >>> llm = Llama(model_path="models/default")
    >>> answer = llm.create_completion("It is a truth", max_tokens=4, temperature=0)
    >>> sorted(answer)
    ['choices', 'created', 'id', 'model', 'object', 'usage']
    >>> answer["usage"]["completion_tokens"]
    4
    """

    def __init__(
        self,
        model_path: PathLike,
        *,
        n_ctx: int = 0,
        n_threads: int | None = None,
        seed: int = 0,
        chat_format: str | None = None,
        chat_template: str | None = None,
        **others: Any,
    ) -> None:
        unknown = sorted(set(others) - _NO_MEANING)
        if unknown:
            raise TypeError(f"Llama() has no argument {unknown[0]!r}")
        if chat_format is not None:
            raise ValueError("chat_format: Ballast uses the chat template of the file; give another as chat_template")
        self._model = Model(model_path, threads=n_threads or 0, chat_template=chat_template)
        self._seed = seed
        if n_ctx > (self._model.context_length or 0):
            length = self._model.context_length
            self._model.close()
            raise ValueError(f"n_ctx: {n_ctx} exceeds the model's context of {length} tokens")
        self._n_ctx = n_ctx or self._model.context_length or 0

    @property
    def model_path(self) -> str:
        return self._model.path

    # Tokens

    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """Ids of a text, which comes as bytes of UTF-8."""
        encoding = self._model.tokenizer.encode(
            text.decode("utf-8"), add_special_tokens=add_bos, special_tokens=special
        )
        return encoding.ids

    def detokenize(
        self, tokens: Sequence[int], prev_tokens: Sequence[int] | None = None, special: bool = False
    ) -> bytes:
        """The text of ids as bytes of UTF-8; behind ``prev_tokens``, where those are given."""
        tokenizer = self._model.tokenizer
        before = tokenizer.decode(prev_tokens or [], skip_special_tokens=not special)
        text = tokenizer.decode([*(prev_tokens or []), *tokens], skip_special_tokens=not special)
        return text[len(before) :].encode("utf-8")

    def token_eos(self) -> int:
        return self._model.tokenizer.marks.get("eos", -1)

    def token_bos(self) -> int:
        return self._model.tokenizer.marks.get("bos", -1)

    def n_ctx(self) -> int:
        return self._n_ctx

    def n_vocab(self) -> int:
        return self._model.vocab_size or 0

    def n_embd(self) -> int:
        return self._model.embedding_size or 0

    # Text

    @overload
    def create_completion(self, prompt: Prompt, *, stream: Literal[False] = ..., **options: Any) -> Completion: ...
    @overload
    def create_completion(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Iterator[Completion]: ...
    def create_completion(
        self, prompt: Prompt, *, stream: bool = False, **options: Any
    ) -> Completion | Iterator[Completion]:
        """Continues a prompt, like the method of that name in llama-cpp-python.

        ``max_tokens`` (16; None or below 1: up to the end of the context), ``temperature`` (0.8), ``top_p`` (0.95), ``min_p``
        (0.05), ``top_k`` (40), ``repeat_penalty`` (1.0), ``stop``, ``seed``, ``echo``, ``logprobs`` (any number gives those
        of the chosen tokens), ``stream``, ``model``. ``grammar`` is a :class:`LlamaGrammar` or a :class:`ballast.Constraint`;
        ``response_format`` instead of it is ``{"type": "json_object"}``, for any object, or the same with a ``"schema"``, or
        ``{"type": "json_schema", "json_schema": {"schema": ...}}`` as in OpenAI's interface.
        """
        return self._complete(prompt, stream, options)

    @overload
    def __call__(self, prompt: Prompt, *, stream: Literal[False] = ..., **options: Any) -> Completion: ...
    @overload
    def __call__(self, prompt: Prompt, *, stream: Literal[True], **options: Any) -> Iterator[Completion]: ...
    def __call__(self, prompt: Prompt, *, stream: bool = False, **options: Any) -> Completion | Iterator[Completion]:
        """The same as :meth:`create_completion`."""
        return self._complete(prompt, stream, options)

    def _complete(
        self, prompt: Prompt, stream: bool, options: dict[str, Any]
    ) -> Completion | Iterator[Completion]:
        name = options.pop("model", None) or self.model_path
        with_logprobs = options.pop("logprobs", None)
        echo = bool(options.pop("echo", False))
        wishes = self._wishes(options, default_max_tokens=16)
        generation = self._model.generate(prompt, log_probabilities=with_logprobs is not None, **wishes)
        head: Completion = {
            "id": f"cmpl-{uuid.uuid4()}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": name,
        }
        shown = self._text_of(prompt) if echo else ""
        if stream:
            return _stream_completion(head, generation, shown, with_logprobs is not None)
        tokens = list(generation.tokens())
        return {
            **head,
            "choices": [
                {
                    "text": shown + generation.text_so_far,
                    "index": 0,
                    "logprobs": _logprobs(tokens) if with_logprobs is not None else None,
                    "finish_reason": _finish_reason(generation),
                }
            ],
            "usage": _usage(generation),
        }

    @overload
    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: Literal[False] = ..., **options: Any
    ) -> Completion: ...
    @overload
    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: Literal[True], **options: Any
    ) -> Iterator[Completion]: ...
    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: bool = False, **options: Any
    ) -> Completion | Iterator[Completion]:
        """Answers a conversation, like the method of that name in llama-cpp-python.

        Takes what :meth:`create_completion` takes except ``echo``, and ``tools``, which the model's chat template is given.
        By default ``max_tokens`` is up to the end of the context, ``temperature`` 0.2 as in llama-cpp-python, and
        ``logprobs`` False.
        """
        name = options.pop("model", None) or self.model_path
        tools = options.pop("tools", None)
        with_logprobs = bool(options.pop("logprobs", False))
        if options.pop("top_logprobs", None):
            raise ValueError("top_logprobs: Ballast gives the log-probability of the chosen token only")
        wishes = self._wishes(options, default_max_tokens=None)
        variables = {} if tools is None else {"tools": tools}
        generation = self._model.chat(messages, log_probabilities=with_logprobs, **wishes, **variables)
        head: Completion = {
            "id": f"chatcmpl-{uuid.uuid4()}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": name,
        }
        if stream:
            return _stream_chat({**head, "object": "chat.completion.chunk"}, generation, with_logprobs)
        tokens = list(generation.tokens())
        return {
            **head,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": generation.text_so_far},
                    "logprobs": _logprobs(tokens) if with_logprobs else None,
                    "finish_reason": _finish_reason(generation),
                }
            ],
            "usage": _usage(generation),
        }

    # Vectors

    def create_embedding(self, input: str | Sequence[str], model: str | None = None) -> Completion:
        """Vectors of texts, of a model that embeds."""
        texts = [input] if isinstance(input, str) else list(input)
        vectors = self._model.embed(texts)
        tokenizer = self._model.tokenizer
        tokens = sum(len(tokenizer.encode(text)) for text in texts)
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "embedding": vector.tolist(), "index": index}
                for index, vector in enumerate(vectors)
            ],
            "model": model or self.model_path,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def embed(self, input: str | Sequence[str]) -> list[float] | list[list[float]]:
        """The vector of a text, or those of several."""
        vectors: Any = self._model.embed(input)
        listed: list[float] | list[list[float]] = vectors.tolist()
        return listed

    def close(self) -> None:
        self._model.close()

    def __enter__(self) -> Llama:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _text_of(self, prompt: Prompt) -> str:
        return prompt if isinstance(prompt, str) else self._model.tokenizer.decode(prompt)

    def _wishes(self, options: dict[str, Any], default_max_tokens: int | None) -> dict[str, Any]:
        for name, neutral in _NEUTRAL.items():
            if name in options and options.pop(name) not in neutral:
                raise ValueError(f"{name}: Ballast has nothing like it; leave it out")
        max_tokens = options.pop("max_tokens", default_max_tokens)
        seed = options.pop("seed", None)
        wishes: dict[str, Any] = {
            "max_total_tokens": self._n_ctx,
            "max_tokens": self._n_ctx if max_tokens is None or max_tokens < 1 else max_tokens,
            "temperature": options.pop("temperature", 0.8 if default_max_tokens else 0.2),
            "top_p": options.pop("top_p", 0.95),
            "min_p": options.pop("min_p", 0.05),
            "top_k": max(0, options.pop("top_k", 40)),
            "repetition_penalty": options.pop("repeat_penalty", 1.0),
            "seed": self._seed if seed is None else seed,
            "stop": options.pop("stop", None) or [],
            "constraint": _constraint_of(options.pop("grammar", None), options.pop("response_format", None)),
        }
        if options:
            raise TypeError(f"there is no argument {sorted(options)[0]!r}")
        return wishes


def _constraint_of(grammar: Any, response_format: Any) -> Constraint | None:
    form = _form_of(response_format)
    if grammar is None:
        return form
    if form is not None:
        raise ValueError("grammar and response_format: give one of them")
    if isinstance(grammar, Constraint):
        return grammar
    if isinstance(grammar, LlamaGrammar):
        return grammar.constraint
    raise TypeError(f"grammar: a ballast.llama.LlamaGrammar or a ballast.Constraint, not {type(grammar).__name__}")


def _members_of(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _form_of(response_format: Any) -> Constraint | None:
    """None where the answer is free text."""
    if response_format is None:
        return None
    form = _members_of(response_format)
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        schema = form.get("schema")
        return Constraint.of_json_object() if schema is None else Constraint.of_schema(schema)
    if kind == "json_schema":
        told = _members_of(form.get("json_schema"))
        if "schema" not in told:
            raise ValueError('response_format: {"type": "json_schema"} needs {"json_schema": {"schema": ...}}')
        return Constraint.of_schema(told["schema"])
    raise ValueError(f'response_format: "type" is "text", "json_object" or "json_schema", not {kind!r}')


def _finish_reason(generation: Generation) -> str | None:
    """llama-cpp-python knows "stop" and "length"."""
    reason = generation.finish_reason
    return "length" if reason == "context_full" else reason


def _usage(generation: Generation) -> CompletionUsage:
    written = len(generation.token_ids)
    return {
        "prompt_tokens": generation.prompt_tokens,
        "completion_tokens": written,
        "total_tokens": generation.prompt_tokens + written,
    }


def _logprobs(tokens: Sequence[Token], at: int = 0) -> dict[str, Any]:
    """Of tokens whose text begins at this character of what was written."""
    offsets: list[int] = []
    for token in tokens:
        offsets.append(at)
        at += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "text_offset": offsets,
        "token_logprobs": [token.log_probability for token in tokens],
        "top_logprobs": [{token.text: token.log_probability} for token in tokens],
    }


def _pieces(generation: Generation, with_logprobs: bool) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The text as it is written; with log-probabilities token by token, also those that complete no character yet."""
    if not with_logprobs:
        for piece in generation:
            yield piece, None
        return
    at = 0
    for token in generation.tokens():
        yield token.text, _logprobs([token], at)
        at += len(token.text)


def _stream_completion(
    head: Completion, generation: Generation, shown: str, with_logprobs: bool
) -> Iterator[Completion]:
    def chunk(text: str, logprobs: dict[str, Any] | None, finish_reason: str | None) -> Completion:
        choice = {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish_reason}
        return {**head, "choices": [choice]}

    with generation:
        if shown:
            yield chunk(shown, None, None)
        for piece, logprobs in _pieces(generation, with_logprobs):
            yield chunk(piece, logprobs, None)
        yield chunk("", None, _finish_reason(generation))


def _stream_chat(head: Completion, generation: Generation, with_logprobs: bool) -> Iterator[Completion]:
    def chunk(delta: dict[str, str], logprobs: dict[str, Any] | None, finish_reason: str | None) -> Completion:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        return {**head, "choices": [choice]}

    with generation:
        yield chunk({"role": "assistant"}, None, None)
        for piece, logprobs in _pieces(generation, with_logprobs):
            yield chunk({"content": piece}, logprobs, None)
        yield chunk({}, None, _finish_reason(generation))
