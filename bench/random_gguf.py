"""Models of random weights as GGUF files, which Ballast and llama.cpp both read."""
import math, os
from dataclasses import dataclass
from pathlib import Path

from environment import key_of


@dataclass
class Shape:
    """A model of random weights, all matrices of one type, the head tied to the embedding."""
    name: str
    architecture: str
    vocabulary: int
    context: int
    width: int
    hidden: int
    layers: int
    heads: int
    key_heads: int

    def head(self):
        return self.width // self.heads


GPT2 = Shape("GPT-2 small", "gpt2", 50257, 1024, 768, 3072, 12, 12, 12)
LLAMA_1B = Shape("Llama 3.2 1B", "llama", 128256, 16384, 2048, 8192, 16, 32, 8)
# What a type's stored values are multiplied with to have a deviation of 1; a block is its f16 scale and its values.
DEVIATIONS = {"q4_0": (math.sqrt((16 * 16 - 1) / 12), 16), "q8_0": (math.sqrt((256 * 256 - 1) / 12), 32)}


class RandomModel:
    """A GGUF file of random values. Rows are in proportion to 1/sqrt(inputs), so that activations stay where they are."""

    def __init__(self, path, shape, type):
        import gguf
        import numpy
        self.gguf, self.numpy, self.shape, self.type = gguf, numpy, shape, type
        self.random = numpy.random.default_rng(1)
        self.writer = gguf.GGUFWriter(path, shape.architecture)
        self.metadata()
        getattr(self, shape.architecture)()
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def metadata(self):
        writer, shape = self.writer, self.shape
        writer.add_tokenizer_model("no_vocab")
        writer.add_vocab_size(shape.vocabulary)
        writer.add_context_length(shape.context)
        writer.add_embedding_length(shape.width)
        writer.add_feed_forward_length(shape.hidden)
        writer.add_block_count(shape.layers)
        writer.add_head_count(shape.heads)
        if shape.architecture == "llama":
            writer.add_head_count_kv(shape.key_heads)
            writer.add_rope_dimension_count(shape.head())
            writer.add_rope_freq_base(500000.0)
            writer.add_layer_norm_rms_eps(1e-5)
        else:
            writer.add_layer_norm_eps(1e-5)

    def matrix(self, name, rows, columns):
        stored = self.blocks(rows, columns) if self.type in DEVIATIONS else self.floats(rows, columns)
        self.writer.add_tensor(f"{name}.weight", stored.reshape(rows, -1),
                               raw_dtype=self.gguf.GGMLQuantizationType[self.type.upper()])

    def blocks(self, rows, columns):
        numpy = self.numpy
        deviation, values = DEVIATIONS[self.type]
        blocks = numpy.empty((rows, columns // 32, 2 + values), numpy.uint8)
        blocks[..., :2] = numpy.array([1 / (deviation * math.sqrt(columns))], numpy.float16).view(numpy.uint8)
        blocks[..., 2:] = self.random.integers(0, 256, (rows, columns // 32, values), numpy.uint8)
        return blocks

    def floats(self, rows, columns):
        """The bytes of values of f32, f16 or bf16, which are the upper halves of f32."""
        numpy = self.numpy
        values = self.random.standard_normal((rows, columns), numpy.float32)
        values *= 1 / math.sqrt(columns)
        if self.type == "bf16":
            return (values.view(numpy.uint32) >> 16).astype(numpy.uint16).view(numpy.uint8)
        return values.astype({"f32": numpy.float32, "f16": numpy.float16}[self.type]).view(numpy.uint8)

    def vector(self, name, count, value):
        self.writer.add_tensor(name, self.numpy.full(count, value, self.numpy.float32))

    def norm(self, name, biased):
        self.vector(f"{name}.weight", self.shape.width, 1.0)
        if biased:
            self.vector(f"{name}.bias", self.shape.width, 0.0)

    def linear(self, name, rows, columns, biased):
        self.matrix(name, rows, columns)
        if biased:
            self.vector(f"{name}.bias", rows, 0.0)

    def gpt2(self):
        shape = self.shape
        self.matrix("token_embd", shape.vocabulary, shape.width)
        positions = self.random.standard_normal((shape.context, shape.width), self.numpy.float32)
        self.writer.add_tensor("position_embd.weight", positions)
        self.norm("output_norm", True)
        for layer in range(shape.layers):
            block = f"blk.{layer}."
            self.norm(block + "attn_norm", True)
            self.linear(block + "attn_qkv", 3 * shape.width, shape.width, True)
            self.linear(block + "attn_output", shape.width, shape.width, True)
            self.norm(block + "ffn_norm", True)
            self.linear(block + "ffn_up", shape.hidden, shape.width, True)
            self.linear(block + "ffn_down", shape.width, shape.hidden, True)

    def llama(self):
        shape, keys = self.shape, self.shape.key_heads * self.shape.head()
        self.matrix("token_embd", shape.vocabulary, shape.width)
        self.norm("output_norm", False)
        for layer in range(shape.layers):
            block = f"blk.{layer}."
            self.norm(block + "attn_norm", False)
            for name, rows in (("attn_q", shape.width), ("attn_k", keys), ("attn_v", keys), ("attn_output", shape.width)):
                self.matrix(block + name, rows, shape.width)
            self.norm(block + "ffn_norm", False)
            self.matrix(block + "ffn_gate", shape.hidden, shape.width)
            self.matrix(block + "ffn_up", shape.hidden, shape.width)
            self.matrix(block + "ffn_down", shape.width, shape.hidden)


def kept_model(folder, shape, type):
    """The path of such a file, which is made once and stays."""
    name = shape.name.lower().replace(" ", "-")
    path = folder / f"{name}-{type}-{key_of(Path(__file__))}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        RandomModel(unfinished, shape, type)
        os.rename(unfinished, path)
    return path
