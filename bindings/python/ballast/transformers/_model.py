"""Text models with transformers' methods."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from ballast._inputs import PathLike
from ballast.models import Generation, Model
from ballast.transformers._arguments import at_revision, id_rows, is_torch, refuse_unknown, rows_like, torch_module


class AutoModelForCausalLM:
    """Opens a text model: see :class:`CausalLM`."""

    def __init__(self) -> None:
        raise TypeError("use AutoModelForCausalLM.from_pretrained(path)")

    @staticmethod
    def from_pretrained(
        path: PathLike,
        *,
        revision: str | None = None,
        param_budget: str | int | float | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> CausalLM:
        """``device`` says where Ballast computes and ``revision`` is of a name in Hugging Face's cache; what else of
        ``options`` transformers knows (``dtype``, ``device_map``, ``cache_dir``, ...) changes nothing."""
        refuse_unknown("AutoModelForCausalLM.from_pretrained", options)
        model = Model(at_revision(path, revision), param_budget, device)
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
        """Changes nothing: a model computes on the ``device`` with which it was opened. Here for programs that call it."""
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
        rows = id_rows(ids)
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
        return rows_like([row + new + [pad] * (longest - len(new)) for row, new in zip(kept, ended)], ids)

    def __call__(self, input_ids: Any, attention_mask: Any = None) -> SimpleNamespace:
        """Logits of all positions: ``.logits`` is [rows, tokens, vocabulary]."""
        import numpy

        rows = id_rows(input_ids)
        if any(len(row) != len(prompt) for row, prompt in zip(rows, _unpadded(rows, attention_mask))):
            raise ValueError("logits of padded rows: give one row at a time instead")
        logits = numpy.stack([self._model.forward(row) for row in rows])
        if is_torch(input_ids):
            return SimpleNamespace(logits=torch_module().from_numpy(logits))
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


def _says_sampling(path: str) -> bool:
    """Whether generation_config.json beside the model asks for sampling."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    try:
        with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as file:
            return bool(json.load(file).get("do_sample", False))
    except (OSError, ValueError, AttributeError):
        return False


def _unpadded(rows: list[list[int]], attention_mask: Any) -> Iterator[list[int]]:
    masks = None if attention_mask is None else id_rows(attention_mask)
    for index, row in enumerate(rows):
        yield row if masks is None else [id for id, kept in zip(row, masks[index]) if kept]


def _feed(streamer: Any, prompt: list[int], generation: Generation) -> None:
    import numpy

    streamer.put(numpy.array([prompt]))
    for token in generation.tokens():
        streamer.put(numpy.array([token.id]))
    streamer.end()
