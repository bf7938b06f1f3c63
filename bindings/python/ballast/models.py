"""Models that run: text generation, chat, embeddings, images, and plain forward passes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from ballast import _core
from ballast._inputs import Message, PathLike, chat_context, clock, parse_budget, parse_size, stop_list
from ballast._open import local_path
from ballast.constraint import Constraint, core_of
from ballast.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    FloatArray = NDArray[numpy.float32]

__all__ = ["Classification", "Generation", "Model", "Token", "load"]

Prompt = Union[str, Sequence[int]]

_log = logging.getLogger("ballast.models")


class Token(NamedTuple):
    """A token that was generated: the text that it completes, its id, and its log-probability where asked for."""

    text: str
    id: int
    log_probability: float


@dataclass(frozen=True)
class Classification:
    """A class that a picture may show. ``name`` is empty where the model's files do not say it."""

    index: int
    name: str
    probability: float
    logit: float


class Generation(Iterator[str], AsyncIterator[str]):
    """A text that is being written. Iterate over its pieces, with ``for`` or ``async for``, or read ``text``.

    The model computes while someone waits for a piece; every step computes a token of all texts of the model that are being
    written, whichever thread or task waits. A Generation that is dropped, closed or cancelled stops costing anything.
    """

    __slots__ = ("_core",)

    def __init__(self, core: _core.Generation) -> None:
        self._core = core

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        piece = self._core.next_text()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> str:
        try:
            piece = await asyncio.get_running_loop().run_in_executor(None, self._core.next_text)
        except asyncio.CancelledError:
            self._core.cancel()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    def tokens(self) -> Iterator[Token]:
        """Token by token, also those that complete no character yet."""
        while (token := self._core.next_token()) is not None:
            yield Token(*token)

    @property
    def text(self) -> str:
        """The whole text: waits for the rest of it."""
        for _ in self:
            pass
        return self._core.text

    @property
    def text_so_far(self) -> str:
        """What has been read of it."""
        return self._core.text

    @property
    def token_ids(self) -> list[int]:
        """Ids of the tokens that have been read."""
        return self._core.token_ids

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the prompt has."""
        return self._core.prompt_tokens

    @property
    def finish_reason(self) -> str | None:
        """None while it goes on; then "stop", "length", "context_full", "cancelled", "timeout" or "failed"."""
        return self._core.finish_reason or None

    @property
    def stop_token_id(self) -> int | None:
        """The token that ended the text, where one did. It is no part of the text."""
        return self._core.stop_token_id

    def cancel(self) -> None:
        """Ends the text here. Any thread may call it."""
        self._core.cancel()

    close = cancel

    async def aclose(self) -> None:
        self._core.cancel()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *exception: object) -> None:
        self._core.cancel()

    def __repr__(self) -> str:
        return f"Generation({len(self.token_ids)} tokens, {self.finish_reason or 'going on'})"


class Model:
    """A model that was opened with :func:`load`. Any number of threads may use it."""

    def __init__(
        self,
        path: PathLike,
        param_budget: str | int | float | None = None,
        device: str = "cpu",
        *,
        threads: int = 0,
        exact: bool = False,
        tokenizer: PathLike | None = None,
        chat_template: str | None = None,
        max_sequences: int = 64,
        cache_bytes: str | int = 0,
    ) -> None:
        self._path = local_path(os.fspath(path))
        budget, share = parse_budget(param_budget)
        self._core = _core.Model(
            self._path,
            device,
            threads,
            budget,
            share,
            exact,
            "" if tokenizer is None else os.fspath(tokenizer),
            chat_template,
            max_sequences,
            parse_size(cache_bytes) if isinstance(cache_bytes, str) else cache_bytes,
        )
        self._facts = self._core.facts()
        for note in self._facts["notes"]:
            _log.info("%s: %s", self._path, note)
        self._is_text = "vocab_size" in self._facts or "embedding_size" in self._facts
        self._marks: tuple[str, str] | None = None

    # What it is

    @property
    def path(self) -> str:
        return self._path

    @property
    def kind(self) -> str:
        """The kind of model, such as "llama"."""
        return str(self._facts["kind"])

    @property
    def capabilities(self) -> list[str]:
        """What it can do, in words."""
        return list(self._facts["capabilities"])

    @property
    def param_bytes(self) -> int:
        """Size of its parameters."""
        return int(self._facts["param_bytes"])

    @property
    def context_length(self) -> int | None:
        """Most tokens that a text model sees at once."""
        return self._facts.get("context_length")

    @property
    def vocab_size(self) -> int | None:
        return self._facts.get("vocab_size")

    @property
    def embedding_size(self) -> int | None:
        return self._facts.get("embedding_size")

    @property
    def class_names(self) -> list[str]:
        """What its outputs stand for, where its files say it."""
        return list(self._facts["class_names"])

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. FileNotFoundError where it has none."""
        return Tokenizer._of(self._core.tokenizer(), self._path)  # pyright: ignore[reportPrivateUsage]

    @property
    def stop_token_ids(self) -> list[int]:
        """Tokens that end a text."""
        return self._core.stop_token_ids()

    @property
    def counters(self) -> dict[str, int]:
        """What the engine has done: requests, steps and tokens."""
        return self._core.counters()

    # Text

    def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        max_total_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: int = 0,
        stop: str | Iterable[str] | None = None,
        stop_token_ids: Iterable[int] = (),
        ignore_eos: bool = False,
        log_probabilities: bool = False,
        timeout: float | None = None,
        constraint: Constraint | None = None,
    ) -> Generation:
        """Continues a prompt: a text, or token ids.

        What is left out is as the model's files say. ``temperature=0`` always takes the likeliest token. The text ends
        before any text in ``stop``, at a token in ``stop_token_ids``, at the end of a text unless ``ignore_eos``, after
        ``max_tokens`` (128) or ``max_total_tokens`` with the prompt's, or ``timeout`` seconds. With a ``constraint`` it is
        JSON, or whatever a schema, grammar or regular expression says: see :class:`ballast.Constraint`.

        >>> model = load("models/default")
        >>> "".join(model.generate("It is a truth", max_tokens=12, temperature=0))
        ' in the world, and I am sure I shall not'
        """
        ends = list(stop_token_ids)
        if constraint is not None and ignore_eos and not ends:
            raise ValueError("ignore_eos: a text with a constraint must be able to end; leave it out or give stop_token_ids")
        ids = self._core.encode(prompt) if isinstance(prompt, str) else list(prompt)
        _check_timeout(timeout)
        wishes = _core.Wishes(
            max_tokens,
            max_total_tokens,
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
            stop_list(stop),
            ends,
            ignore_eos,
            log_probabilities,
            timeout,
            core_of(constraint),
        )
        return Generation(self._core.generate(ids, wishes))

    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        max_tokens: int | None = None,
        max_total_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: int = 0,
        stop: str | Iterable[str] | None = None,
        stop_token_ids: Iterable[int] = (),
        log_probabilities: bool = False,
        timeout: float | None = None,
        constraint: Constraint | None = None,
        **variables: Any,
    ) -> Generation:
        """Answers a conversation: a list of ``{"role": ..., "content": ...}``, or the text of one question.

        More keywords (``tools``, ``enable_thinking``, ...) are variables of the model's chat template. An answer has at most
        ``max_tokens`` (512). With a ``constraint`` it is JSON, or whatever a schema, grammar or regular expression says.
        FileNotFoundError where the model has no chat template.
        """
        _check_timeout(timeout)
        if self._marks is None:
            self._marks = self._core.chat_marks()
        bos, eos = self._marks
        context = chat_context(messages, bos_token=bos, eos_token=eos, add_generation_prompt=True, more=variables)
        wishes = _core.Wishes(
            max_tokens,
            max_total_tokens,
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            seed,
            stop_list(stop),
            list(stop_token_ids),
            False,
            log_probabilities,
            timeout,
            core_of(constraint),
        )
        return Generation(self._core.chat(context, clock(), wishes))

    # Vectors, pictures, and whatever else a model takes

    def embed(self, texts: str | Iterable[str]) -> FloatArray:
        """Vectors of texts: ``[texts, width]``, or ``[width]`` of a single str.

        A text that is longer than the model's context loses its end.
        """
        if isinstance(texts, str):
            single: FloatArray = self._core.embed([texts])[0]
            return single
        return self._core.embed(list(texts))

    def classify(self, image: Any, top: int = 5) -> list[Classification]:
        """The likeliest classes of a picture, best first.

        ``image`` is a path, a PIL image, or an array of bytes ``[height, width]`` or ``[height, width, 3]``. Paths and PIL
        images need Pillow.
        """
        return [Classification(*found) for found in self._core.classify(_pixels(image), top)]

    def forward(self, inputs: Any) -> FloatArray:
        """What the model computes of its input, without anything around it.

        A text or a list of ids gives logits ``[tokens, vocabulary]`` (of an embedding model the last states); an array of
        floats gives what the model makes of it: of pictures ``[n, channels, height, width]`` logits ``[n, classes]``.
        """
        import numpy

        if isinstance(inputs, str):
            return self._core.forward_tokens(self._core.encode(inputs))
        array = numpy.asarray(inputs)
        if self._is_text and array.dtype.kind in "iu" and array.ndim == 1:
            return self._core.forward_tokens(array.tolist())
        return self._core.forward_values(numpy.ascontiguousarray(array, dtype=numpy.float32))

    # Its end

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Gives the model's memory back. Texts that are being written end; later calls raise ValueError."""
        self._core.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return f"Model({self._path!r}, closed)"
        return f"Model({self._path!r}, {self.kind}, {self.param_bytes / 1e6:.1f} MB: {', '.join(self.capabilities)})"


def load(
    path: PathLike,
    param_budget: str | int | float | None = None,
    device: str = "cpu",
    *,
    threads: int = 0,
    exact: bool = False,
    tokenizer: PathLike | None = None,
    chat_template: str | None = None,
    max_sequences: int = 64,
    cache_bytes: str | int = 0,
) -> Model:
    """Opens a model: a GGUF file, a folder of Hugging Face, or any other file of weights with a model's configuration.

    "org/name" is the model that Hugging Face's cache keeps under this name, unless a path is called so.

    Parameters are read when they are first used. ``param_budget`` bounds the memory that they take at a time: "2GiB",
    "25%" of them, or a number of bytes. ``device`` is a compute backend, ``threads`` how many it uses (0: all). ``exact``
    computes with quantised and bf16 weights in f32. ``max_sequences`` texts are computed in one pass, with at most
    ``cache_bytes`` for their past (0: as much as there is).

    >>> with load("models/default") as model:
    ...     model.kind
    'gpt'
    """
    return Model(
        path,
        param_budget,
        device,
        threads=threads,
        exact=exact,
        tokenizer=tokenizer,
        chat_template=chat_template,
        max_sequences=max_sequences,
        cache_bytes=cache_bytes,
    )


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None and not timeout >= 0:
        raise ValueError(f"timeout: {timeout} is no number of seconds")


def _pixels(image: Any) -> NDArray[numpy.uint8]:
    import numpy

    if isinstance(image, (str, os.PathLike)):
        image = _open_image(image)
    if hasattr(image, "convert"):  # PIL
        with contextlib.closing(image.convert("RGB")) as converted:
            return numpy.array(converted, dtype=numpy.uint8)
    array = numpy.asarray(image)
    if array.dtype != numpy.uint8:
        raise TypeError(f"an image is an array of uint8, not of {array.dtype}; forward() takes floats")
    if array.ndim == 2:
        array = numpy.stack([array, array, array], axis=-1)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"an image is [height, width] or [height, width, 3], not {list(array.shape)}")
    return numpy.ascontiguousarray(array)


def _open_image(path: Any) -> Any:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise ImportError("reading a picture from a file needs Pillow: pip install pillow") from None
    with pillow.open(path) as image:
        image.load()
        return image
