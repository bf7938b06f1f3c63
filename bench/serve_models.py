"""The models of scripts/bench_serve. A server needs a tokenizer, which the random models of the other benches do without."""
import os
from pathlib import Path

from environment import key_of
from random_gguf import LLAMA_1B, RandomModel


class ServedModel(RandomModel):
    """A model of random values with the tokenizer of another GGUF file, of the same size."""

    def __init__(self, path, shape, type, vocabulary):
        self.vocabulary = vocabulary
        super().__init__(path, shape, type)

    def metadata(self):
        """That of the other models, and every `tokenizer` field in place of their one."""
        shape, writer = self.shape, self.writer
        super().metadata()
        fields = self.gguf.GGUFReader(self.vocabulary).fields
        tokens = len(fields["tokenizer.ggml.tokens"].data)
        if tokens != shape.vocabulary:
            raise ValueError(f"{self.vocabulary} has {tokens} tokens, not {shape.vocabulary}")
        for pairs in writer.kv_data:
            pairs.pop("tokenizer.ggml.model", None)
        for name, field in fields.items():
            if name.startswith("tokenizer."):
                writer.add_key_value(name, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)


def served_llama(folder, vocabulary):
    """The path of the shape of Llama 3.2 1B in q4_0, which is made once and stays."""
    path = folder / f"served-llama-3.2-1b-q4_0-{key_of(Path(__file__), Path(__file__).with_name('random_gguf.py'), vocabulary)}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        ServedModel(unfinished, LLAMA_1B, "q4_0", vocabulary)
        os.rename(unfinished, path)
    return path
