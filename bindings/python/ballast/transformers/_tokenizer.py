"""Tokenizers with transformers' methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from ballast._inputs import Message, PathLike
from ballast.tokenizer import Tokenizer
from ballast.transformers._arguments import at_revision, refuse_unknown, to_list, to_tensor

Texts = Union[str, Sequence[str]]


def _conversations(given: Any) -> tuple[bool, list[Sequence[Message]]]:
    """Whether several conversations are given, and all of them."""
    batched = _is_list(given) and len(given) > 0 and not isinstance(given[0], Mapping)
    conversations: list[Any] = list(given) if batched else [given]
    for one in conversations:
        if not _is_list(one):
            found = type(one).__name__
            raise TypeError(
                'apply_chat_template() takes a list of messages such as {"role": "user", "content": "Hello"}, or a list of '
                f"such lists, not {'a list of ' * batched}{found}"
            )
        for message in one:
            if not isinstance(message, Mapping):
                raise TypeError(
                    'a message of apply_chat_template() is a dict such as {"role": "user", "content": "Hello"}, '
                    f"not {type(message).__name__}"
                )
    return batched, conversations


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


class BatchEncoding(dict[str, Any]):
    """What a tokenizer gives: a dict whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to(self, device: Any) -> BatchEncoding:
        """Moves torch tensors; arrays of NumPy stay."""
        return BatchEncoding({key: value.to(device) if hasattr(value, "to") else value for key, value in self.items()})


class AutoTokenizer:
    """Opens the tokenizer of a model: see :class:`PreTrainedTokenizer`."""

    def __init__(self) -> None:
        raise TypeError("use AutoTokenizer.from_pretrained(path)")

    @staticmethod
    def from_pretrained(
        path: PathLike, *, revision: str | None = None, padding_side: str = "right", **options: Any
    ) -> PreTrainedTokenizer:
        """``revision`` is of a name in Hugging Face's cache; what else of ``options`` transformers knows changes nothing."""
        refuse_unknown("AutoTokenizer.from_pretrained", options)
        return PreTrainedTokenizer(Tokenizer(at_revision(path, revision)), padding_side=padding_side)


class PreTrainedTokenizer:
    """A tokenizer with transformers' methods.

    >>> tokenizer = AutoTokenizer.from_pretrained("models/default")
    >>> tokenizer.pad_token = "<|endoftext|>"
    >>> batch = tokenizer(["a b", "a"], padding=True, return_tensors="np")
    >>> batch["attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """

    def __init__(self, tokenizer: Tokenizer, padding_side: str = "right") -> None:
        if padding_side not in ("left", "right"):
            raise ValueError(f"padding_side: 'left' or 'right', not {padding_side!r}")
        self._tokenizer = tokenizer
        self._marks = tokenizer.marks
        self.padding_side = padding_side
        self.model_max_length = int(1e30)
        self.name_or_path = tokenizer.path

    # Special tokens

    @property
    def bos_token_id(self) -> int | None:
        return self._marks.get("bos")

    @property
    def eos_token_id(self) -> int | None:
        return self._marks.get("eos")

    @property
    def unk_token_id(self) -> int | None:
        return self._marks.get("unk")

    @property
    def cls_token_id(self) -> int | None:
        return self._marks.get("cls")

    @property
    def sep_token_id(self) -> int | None:
        return self._marks.get("sep")

    @property
    def mask_token_id(self) -> int | None:
        return self._marks.get("mask")

    @property
    def pad_token_id(self) -> int | None:
        return self._marks.get("pad")

    @pad_token_id.setter
    def pad_token_id(self, id: int) -> None:
        self._marks["pad"] = id

    @property
    def bos_token(self) -> str | None:
        return self._text_of("bos")

    @property
    def eos_token(self) -> str | None:
        return self._text_of("eos")

    @property
    def unk_token(self) -> str | None:
        return self._text_of("unk")

    @property
    def pad_token(self) -> str | None:
        return self._text_of("pad")

    @pad_token.setter
    def pad_token(self, token: str) -> None:
        id = self._tokenizer.token_to_id(token)
        if id is None:
            raise ValueError(f"pad_token: the vocabulary has no token {token!r}")
        self._marks["pad"] = id

    @property
    def all_special_ids(self) -> list[int]:
        return sorted(set(self._marks.values()))

    def _text_of(self, mark: str) -> str | None:
        return self._tokenizer.id_to_token(self._marks[mark]) if mark in self._marks else None

    # Vocabulary

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.vocab_size

    def __len__(self) -> int:
        return self._tokenizer.vocab_size

    @property
    def chat_template(self) -> str | None:
        return self._tokenizer.chat_template

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or those of several; the unknown's where there is none."""
        if isinstance(tokens, str):
            id = self._tokenizer.token_to_id(tokens)
            return self.unk_token_id if id is None else id
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The text of a token, or those of several."""
        if isinstance(ids, int):
            return self._tokenizer.id_to_token(ids)
        return [self._tokenizer.id_to_token(int(id)) for id in ids]

    def tokenize(self, text: str) -> list[str]:
        """The texts of the tokens of a text."""
        return self._tokenizer.encode(text, add_special_tokens=False).tokens

    # Texts and ids

    def encode(
        self,
        text: str,
        text_pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
    ) -> Any:
        """Ids of a text."""
        batch = self(
            text,
            text_pair,
            add_special_tokens=add_special_tokens,
            truncation=truncation,
            max_length=max_length,
            return_tensors=return_tensors,
        )
        return batch["input_ids"]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False) -> str:
        """The text of ids: a list, an array or a tensor."""
        ids = to_list(token_ids)
        return self._tokenizer.decode([ids] if isinstance(ids, int) else ids, skip_special_tokens=skip_special_tokens)

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False) -> list[str]:
        """The texts of several lists of ids, or of the rows of an array."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    def __call__(
        self,
        text: Texts,
        text_pair: Texts | None = None,
        *,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str = False,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_tensors: str | None = None,
        return_token_type_ids: bool = False,
        return_attention_mask: bool = True,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
    ) -> BatchEncoding:
        """Ids and masks of a text or of many, padded and cut as asked.

        ``padding`` is True or "longest", "max_length", or False; ``truncation`` cuts at ``max_length``.
        ``return_tensors`` is "np", "pt" or None.
        """
        single = isinstance(text, str)
        texts = [text] if isinstance(text, str) else list(text)
        if text_pair is None:
            encodings = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        else:
            pairs = [text_pair] if isinstance(text_pair, str) else list(text_pair)
            if len(pairs) != len(texts):
                raise ValueError(f"text has {len(texts)} texts and text_pair {len(pairs)}")
            encodings = [
                self._tokenizer.encode(first, second, add_special_tokens=add_special_tokens)
                for first, second in zip(texts, pairs)
            ]
        rows: dict[str, list[list[Any]]] = {"input_ids": [encoding.ids for encoding in encodings]}
        if return_token_type_ids:
            rows["token_type_ids"] = [encoding.type_ids for encoding in encodings]
        if return_attention_mask:
            rows["attention_mask"] = [encoding.attention_mask for encoding in encodings]
        if return_special_tokens_mask:
            rows["special_tokens_mask"] = [encoding.special_tokens_mask for encoding in encodings]
        if return_offsets_mapping:
            rows["offset_mapping"] = [encoding.offsets for encoding in encodings]
        if truncation not in (False, "do_not_truncate"):
            self._truncate(rows, max_length, [encoding.special_tokens_mask for encoding in encodings])
        self._pad(rows, padding, max_length, pad_to_multiple_of, padding_side or self.padding_side)
        if single and return_tensors is None:
            return BatchEncoding({key: values[0] for key, values in rows.items()})
        return BatchEncoding({key: to_tensor(values, return_tensors) for key, values in rows.items()})

    def pad(
        self,
        encoded: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        *,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
    ) -> BatchEncoding:
        """Brings encodings of several texts to one length."""
        if isinstance(encoded, Mapping):
            rows: dict[str, list[list[Any]]] = {key: [list(row) for row in value] for key, value in encoded.items()}
        else:
            rows = {key: [list(one[key]) for one in encoded] for key in encoded[0]}
        rows.setdefault("attention_mask", [[1] * len(ids) for ids in rows["input_ids"]])
        self._pad(rows, padding, max_length, pad_to_multiple_of, self.padding_side)
        return BatchEncoding({key: to_tensor(values, return_tensors) for key, values in rows.items()})

    def apply_chat_template(
        self,
        conversation: Any,
        *,
        chat_template: str | None = None,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: str | None = None,
        return_dict: bool = False,
        **variables: Any,
    ) -> Any:
        """A conversation, or several, as the model wants them: text with ``tokenize=False``, ids otherwise.

        A conversation is a list of messages such as ``{"role": "user", "content": "Hello"}``.
        """
        batched, conversations = _conversations(conversation)
        if tools is not None:
            variables["tools"] = list(tools)
        if documents is not None:
            variables["documents"] = list(documents)
        if not tokenize:
            texts = [
                self._tokenizer.apply_chat_template(
                    one, add_generation_prompt=add_generation_prompt, chat_template=chat_template, **variables
                )
                for one in conversations
            ]
            return texts if batched else texts[0]
        ids = [
            self._tokenizer.encode_chat(
                one, add_generation_prompt=add_generation_prompt, chat_template=chat_template, **variables
            )
            for one in conversations
        ]
        rows: dict[str, list[list[Any]]] = {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}
        if truncation:
            self._truncate(rows, max_length, [[0] * len(row) for row in ids])
        self._pad(rows, padding, max_length, None, self.padding_side)
        if not batched and return_tensors is None:
            made = BatchEncoding({key: values[0] for key, values in rows.items()})
        else:
            made = BatchEncoding({key: to_tensor(values, return_tensors) for key, values in rows.items()})
        return made if return_dict else made["input_ids"]

    @staticmethod
    def _truncate(rows: dict[str, list[list[Any]]], max_length: int | None, added: Sequence[Sequence[int]]) -> None:
        """Cuts the end of each text. What was added behind it (1 in ``added``) stays."""
        if max_length is None:
            raise ValueError("truncation needs a max_length")
        for index, ids in enumerate(rows["input_ids"]):
            size = len(ids)
            if size <= max_length:
                continue
            if 1 in added[index][1:-1]:
                raise ValueError("pairs of texts are not cut: shorten them before")
            tail = 0
            while tail < min(size, max_length) and added[index][size - 1 - tail]:
                tail += 1
            for values in rows.values():
                values[index] = values[index][: max_length - tail] + values[index][size - tail :]

    def _pad(
        self,
        rows: dict[str, list[list[Any]]],
        padding: bool | str,
        max_length: int | None,
        multiple_of: int | None,
        side: str,
    ) -> None:
        if padding in (False, "do_not_pad"):
            return
        longest = max((len(ids) for ids in rows["input_ids"]), default=0)
        if padding == "max_length":
            if max_length is None:
                raise ValueError("padding='max_length' needs a max_length")
            longest = max_length
        elif padding not in (True, "longest"):
            raise ValueError(f"padding: True, False, 'longest' or 'max_length', not {padding!r}")
        if multiple_of:
            longest = -(-longest // multiple_of) * multiple_of
        fillers: dict[str, Any] = {"special_tokens_mask": 1, "offset_mapping": (0, 0)}
        for key, values in rows.items():
            filler = fillers.get(key, 0)
            for index, row in enumerate(values):
                missing = longest - len(row)
                if missing <= 0:
                    continue
                if key == "input_ids":
                    if self.pad_token_id is None:
                        raise ValueError("the tokenizer has no padding token: set pad_token = eos_token, for example")
                    filler = self.pad_token_id
                values[index] = [filler] * missing + row if side == "left" else row + [filler] * missing

    def __repr__(self) -> str:
        return f"PreTrainedTokenizer({self.name_or_path!r}, vocab_size={self.vocab_size})"
