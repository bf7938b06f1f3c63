"""Text to tokens and back."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ballast import _core
from ballast._core import Encoding
from ballast._inputs import Message, PathLike, chat_context, clock
from ballast._open import local_path

__all__ = ["Encoding", "Tokenizer"]

_log = logging.getLogger("ballast.tokenizer")


class Tokenizer:
    """A tokenizer from a file, or that of a model.

    ``path`` is a ``tokenizer.json``, a ``vocab.json`` with its ``merges.txt``, a SentencePiece model, a GGUF file, a folder
    with any of them, a model file beside one, or the name of a model in Hugging Face's cache. ``"bytes"`` makes every byte a
    token. Any number of threads may share one; long work releases the GIL.

    >>> tokenizer = Tokenizer("models/default")
    >>> tokenizer.decode(tokenizer.encode("It is a truth").ids)
    'It is a truth'
    >>> [encoding.offsets for encoding in tokenizer.encode_batch(["a b"])]
    [[(0, 1), (1, 3)]]
    """

    __slots__ = ("_core", "_path")

    def __init__(self, path: PathLike) -> None:
        self._path = local_path(os.fspath(path))
        self._core = _open(self._path)
        for note in self._core.notes:
            _log.warning("%s: %s", self._path, note)

    @classmethod
    def _of(cls, core: _core.Tokenizer, path: str) -> Tokenizer:
        made = cls.__new__(cls)
        made._core, made._path = core, path
        return made

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        special_tokens: bool = True,
        fit_length: bool = False,
    ) -> Encoding:
        """The tokens of a text, or of two for models that compare them.

        ``add_special_tokens`` puts the tokens around the text that the model expects. ``special_tokens=False`` reads marks
        such as ``<|endoftext|>`` in the text as plain text: use it for what users typed. ``fit_length`` cuts and pads as the
        tokenizer's file says.
        """
        return self._core.encode(text, pair, add_special_tokens, special_tokens, fit_length)

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = True,
        special_tokens: bool = True,
        fit_length: bool = False,
        threads: int = 0,
    ) -> list[Encoding]:
        """Many texts at once, on several threads (0: one per processor) and without the GIL."""
        listed = texts if isinstance(texts, list) else list(texts)
        return self._core.encode_batch(listed, add_special_tokens, special_tokens, fit_length, threads)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of token ids. Bytes that are no whole character become U+FFFD."""
        return self._core.decode(list(ids), skip_special_tokens)

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special_tokens: bool = True) -> list[str]:
        """The text of each list of ids."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]

    def token_to_id(self, token: str) -> int | None:
        """The id of a token by its text; None where there is none."""
        return self._core.token_to_id(token)

    def id_to_token(self, id: int) -> str | None:
        """The text of a token; None for an id that does not exist."""
        return self._core.id_to_token(id)

    def is_special(self, id: int) -> bool:
        """Whether a token is a mark, such as an end of text."""
        return self._core.is_special(id)

    @property
    def marks(self) -> dict[str, int]:
        """Ids of "bos", "eos", "unk", "cls", "sep", "pad" and "mask", as far as the file names them."""
        return self._core.marks()

    @property
    def vocab_size(self) -> int:
        """Number of different tokens."""
        return self._core.size

    def __len__(self) -> int:
        return self._core.size

    @property
    def path(self) -> str:
        return self._path

    @property
    def chat_template(self) -> str | None:
        """The chat template of the model that the tokenizer belongs to; None where it has none."""
        try:
            return self._core.chat_marks()[2]
        except FileNotFoundError:
            return None

    def apply_chat_template(
        self,
        messages: str | Sequence[Message],
        *,
        add_generation_prompt: bool = False,
        chat_template: str | None = None,
        **variables: Any,
    ) -> str:
        """The conversation as the model wants it written. More keywords (``tools``, ...) are the template's variables."""
        context = self._context(messages, add_generation_prompt, chat_template, variables)
        return self._core.render_chat(context, clock(), chat_template)

    def encode_chat(
        self,
        messages: str | Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        chat_template: str | None = None,
        **variables: Any,
    ) -> list[int]:
        """The tokens of a conversation. What the messages say never becomes a special token."""
        context = self._context(messages, add_generation_prompt, chat_template, variables)
        return self._core.encode_chat(context, clock(), chat_template)

    def _context(
        self,
        messages: str | Sequence[Message],
        add_generation_prompt: bool,
        chat_template: str | None,
        variables: dict[str, Any],
    ) -> str:
        try:
            bos, eos, _ = self._core.chat_marks()
        except FileNotFoundError:
            if chat_template is None:
                raise
            marks = self.marks
            bos, eos = (self.id_to_token(marks[name]) or "" if name in marks else "" for name in ("bos", "eos"))
        return chat_context(
            messages, bos_token=bos, eos_token=eos, add_generation_prompt=add_generation_prompt, more=variables
        )

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str]]:
        return type(self), (self._path,)

    def __repr__(self) -> str:
        return f"Tokenizer({self._path!r}, {self.vocab_size} tokens)"


def _open(path: str) -> _core.Tokenizer:
    """A tokenizer's own file, or what stands beside a model's."""
    try:
        return _core.Tokenizer(path, False)
    except (ValueError, OSError) as failure:
        try:
            return _core.Tokenizer(path, True)
        except (ValueError, OSError):
            raise failure from None
