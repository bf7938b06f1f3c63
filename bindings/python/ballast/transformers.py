"""``AutoModelForCausalLM`` and ``AutoTokenizer`` in the manner of transformers, for the calls that most programs make.

    from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("folder")
    model = AutoModelForCausalLM.from_pretrained("folder")
    inputs = tokenizer("Once upon a time", return_tensors="np")
    print(tokenizer.decode(model.generate(**inputs, max_new_tokens=20)[0]))

Tensors are NumPy arrays, or torch tensors where the inputs are or ``return_tensors="pt"`` asks for them. Arguments that
Ballast does not have raise; none is ignored silently.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Union

from ballast._inputs import Message, PathLike
from ballast.models import Generation, Model
from ballast.tokenizer import Tokenizer

__all__ = ["AutoModelForCausalLM", "AutoTokenizer", "BatchEncoding", "CausalLM", "PreTrainedTokenizer"]

Texts = Union[str, Sequence[str]]

# Arguments of from_pretrained() that choose how transformers loads; Ballast reads weights as they are, when needed.
_LOADING = frozenset(
    "torch_dtype dtype device_map low_cpu_mem_usage trust_remote_code use_safetensors attn_implementation revision "
    "use_fast local_files_only cache_dir".split()
)


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
    def from_pretrained(path: PathLike, *, padding_side: str = "right", **options: Any) -> PreTrainedTokenizer:
        _refuse_unknown("AutoTokenizer.from_pretrained", options)
        return PreTrainedTokenizer(Tokenizer(path), padding_side=padding_side)


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
        ids = _to_list(token_ids)
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
        return BatchEncoding({key: _tensor(values, return_tensors) for key, values in rows.items()})

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
        return BatchEncoding({key: _tensor(values, return_tensors) for key, values in rows.items()})

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
        """A conversation, or several, as the model wants them: text with ``tokenize=False``, ids otherwise."""
        batched = bool(conversation) and not isinstance(conversation[0], Mapping)
        conversations: list[Sequence[Message]] = list(conversation) if batched else [conversation]
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
            made = BatchEncoding({key: _tensor(values, return_tensors) for key, values in rows.items()})
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


class AutoModelForCausalLM:
    """Opens a text model: see :class:`CausalLM`."""

    def __init__(self) -> None:
        raise TypeError("use AutoModelForCausalLM.from_pretrained(path)")

    @staticmethod
    def from_pretrained(
        path: PathLike, *, param_budget: str | int | float | None = None, device: str = "cpu", **options: Any
    ) -> CausalLM:
        _refuse_unknown("AutoModelForCausalLM.from_pretrained", options)
        model = Model(path, param_budget, device)
        if model.vocab_size is None:
            kind = model.kind
            model.close()
            raise ValueError(f"{os.fspath(path)}: a {kind} model does not generate text")
        return CausalLM(model)


class CausalLM:
    """A text model with transformers' ``generate()`` and a call that gives logits.

    >>> model = AutoModelForCausalLM.from_pretrained("models/default")
    >>> model.generate([[10, 20, 30]], max_new_tokens=2, do_sample=False).shape
    (1, 5)
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._samples = _says_sampling(model.path)
        self.name_or_path = model.path
        self.device = "cpu"
        self.config = SimpleNamespace(
            model_type=model.kind, vocab_size=model.vocab_size, max_position_embeddings=model.context_length
        )

    @property
    def ballast(self) -> Model:
        """The model itself, with everything that Ballast offers."""
        return self._model

    def eval(self) -> CausalLM:
        return self

    def to(self, *_: Any, **__: Any) -> CausalLM:
        """Ballast computes where it was opened; here for programs that call it."""
        return self

    def generate(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        *,
        inputs: Any = None,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        do_sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float | None = None,
        num_return_sequences: int = 1,
        num_beams: int = 1,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
        stop_strings: str | Iterable[str] | None = None,
        seed: int = 0,
        streamer: Any = None,
        use_cache: bool = True,
        token_type_ids: Any = None,
    ) -> Any:
        """Continues each row of ids, all of them together, and gives the rows with what was written.

        Rows that end before others are filled with ``pad_token_id`` (the end of text by default). ``attention_mask`` says
        where rows were padded. ``streamer`` is told of one row as it is written: its ``put()`` gets ids, then ``end()``.
        ``num_beams`` above 1 is not supported. ``use_cache`` and ``token_type_ids`` change nothing.
        """
        if num_beams != 1:
            raise ValueError("num_beams: Ballast samples, it has no beam search")
        ids = inputs if input_ids is None else input_ids
        if ids is None:
            raise ValueError("generate() needs input_ids")
        rows = _rows(ids)
        prompts = [row for row in _unpadded(rows, attention_mask) for _ in range(num_return_sequences)]
        if streamer is not None and len(prompts) != 1:
            raise ValueError("a streamer follows one text, not several")
        sampling = self._sampling(do_sample, temperature, top_k)
        stops = [] if eos_token_id is None else [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id)
        generations: list[Generation] = []
        limit = max_new_tokens if max_new_tokens is not None else 20 if max_length is None else max_length
        for number, prompt in enumerate(prompts):
            generations.append(
                self._model.generate(
                    prompt,
                    max_tokens=limit,
                    max_total_tokens=max_length if max_new_tokens is None else None,
                    temperature=sampling[0],
                    top_k=sampling[1],
                    top_p=top_p,
                    min_p=min_p,
                    repetition_penalty=repetition_penalty,
                    seed=seed + number,
                    stop=stop_strings,
                    stop_token_ids=stops,
                    ignore_eos=eos_token_id is not None,
                )
            )
        if streamer is not None:
            _feed(streamer, prompts[0], generations[0])
        for generation in generations:
            for _ in generation:
                pass
        pad = self._padding(pad_token_id, stops)
        written = [generation.token_ids for generation in generations]
        ended = [
            new if generation.stop_token_id is None else [*new, generation.stop_token_id]
            for new, generation in zip(written, generations)
        ]
        longest = max(len(new) for new in ended)
        kept = [row for row in rows for _ in range(num_return_sequences)]
        return _like([row + new + [pad] * (longest - len(new)) for row, new in zip(kept, ended)], ids)

    def __call__(self, input_ids: Any, attention_mask: Any = None) -> SimpleNamespace:
        """Logits of all positions: ``.logits`` is [rows, tokens, vocabulary]."""
        import numpy

        rows = _rows(input_ids)
        if any(len(row) != len(prompt) for row, prompt in zip(rows, _unpadded(rows, attention_mask))):
            raise ValueError("logits of padded rows: give one row at a time instead")
        logits = numpy.stack([self._model.forward(row) for row in rows])
        if _is_torch(input_ids):
            return SimpleNamespace(logits=_torch().from_numpy(logits))
        return SimpleNamespace(logits=logits)

    def _sampling(
        self, do_sample: bool | None, temperature: float | None, top_k: int | None
    ) -> tuple[float | None, int | None]:
        """transformers takes the likeliest token unless the model's files or the caller say otherwise."""
        if not (self._samples if do_sample is None else do_sample):
            return 0.0, top_k
        if self._samples:
            return temperature, top_k
        return 1.0 if temperature is None else temperature, 50 if top_k is None else top_k

    def _padding(self, pad_token_id: int | None, stops: list[int]) -> int:
        if pad_token_id is not None:
            return pad_token_id
        ends = stops or self._model.stop_token_ids
        return ends[0] if ends else 0

    def __repr__(self) -> str:
        return f"CausalLM({self._model!r})"


def _refuse_unknown(where: str, options: Mapping[str, Any]) -> None:
    unknown = sorted(set(options) - _LOADING)
    if unknown:
        raise TypeError(f"{where}() has no argument {unknown[0]!r}")


def _says_sampling(path: str) -> bool:
    """Whether generation_config.json beside the model asks for sampling."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    try:
        with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as file:
            return bool(json.load(file).get("do_sample", False))
    except (OSError, ValueError, AttributeError):
        return False


def _torch() -> Any:
    """Imported only where tensors of it are asked for."""
    return importlib.import_module("torch")


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _to_list(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value if isinstance(value, int) else list(value)


def _rows(ids: Any) -> list[list[int]]:
    listed = _to_list(ids)
    if not listed:
        raise ValueError("generate() needs at least one token")
    return [listed] if isinstance(listed[0], int) else [list(row) for row in listed]


def _unpadded(rows: list[list[int]], attention_mask: Any) -> Iterator[list[int]]:
    masks = None if attention_mask is None else _rows(attention_mask)
    for index, row in enumerate(rows):
        yield row if masks is None else [id for id, kept in zip(row, masks[index]) if kept]


def _tensor(values: list[list[Any]], kind: str | None) -> Any:
    if kind is None:
        return values
    if len({len(row) for row in values}) > 1:
        raise ValueError("rows of different lengths make no tensor: ask for padding=True")
    import numpy

    array = numpy.array(values, dtype=numpy.int64)
    if kind == "np":
        return array
    if kind == "pt":
        return _torch().from_numpy(array)
    raise ValueError(f"return_tensors: 'np', 'pt' or None, not {kind!r}")


def _like(rows: list[list[int]], ids: Any) -> Any:
    import numpy

    array = numpy.array(rows, dtype=numpy.int64)
    if not _is_torch(ids):
        return array
    return _torch().from_numpy(array)


def _feed(streamer: Any, prompt: list[int], generation: Generation) -> None:
    import numpy

    streamer.put(numpy.array([prompt]))
    for token in generation.tokens():
        streamer.put(numpy.array([token.id]))
    streamer.end()
