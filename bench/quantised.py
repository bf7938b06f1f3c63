"""The rows of the table of quantised models: Ballast beside llama.cpp on the same GGUF files.

Each turn of Ballast is a process of its own that warms up once and then measures once; llama.cpp runs in this process,
one context for each row, warmed up once before its first turn. Times are those of one token or one prompt.
"""
import ctypes, math, subprocess, time
from dataclasses import dataclass

from runtime import Ballast, Work, some_tokens
from storage import command, speed_of

PROMPT = 128
STEPS = 32
LONG = 512
SHARE = 0.8  # of llama.cpp's speed at writing text, asked of Ballast


# ---------------------------------------------------------------- the files


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
LLAMA_1B = Shape("Llama 3.2 1B", "llama", 128256, 2048, 2048, 8192, 16, 32, 8)
# What a type's stored values are multiplied with to have a deviation of 1; a block is its f16 scale and its values.
DEVIATIONS = {"q4_0": (math.sqrt((16 * 16 - 1) / 12), 16), "q8_0": (math.sqrt((256 * 256 - 1) / 12), 32)}


class RandomModel:
    """A GGUF file of random blocks. Rows are in proportion to 1/sqrt(inputs), so that activations stay where they are."""

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
        numpy = self.numpy
        deviation, values = DEVIATIONS[self.type]
        blocks = numpy.empty((rows, columns // 32, 2 + values), numpy.uint8)
        blocks[..., :2] = numpy.array([1 / (deviation * math.sqrt(columns))], numpy.float16).view(numpy.uint8)
        blocks[..., 2:] = self.random.integers(0, 256, (rows, columns // 32, values), numpy.uint8)
        self.writer.add_tensor(f"{name}.weight", blocks.reshape(rows, -1),
                               raw_dtype=self.gguf.GGMLQuantizationType[self.type.upper()])

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


# ---------------------------------------------------------------- the peer


class LlamaCpp:
    """A loaded model of llama.cpp with its default settings but the threads, through its C interface."""

    def __init__(self, path, threads):
        import llama_cpp
        self.api = llama_cpp
        llama_cpp.llama_log_set(self.silence(), ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = LONG + STEPS
        settings.n_batch = settings.n_ubatch = LONG
        settings.n_threads = settings.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def silence(self):
        self.callback = self.api.llama_log_callback(lambda *_: None)
        return self.callback

    def close(self):
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)

    def feed(self, tokens):
        """Time in ms until the logits behind the last token are there."""
        array = (self.api.llama_token * len(tokens))(*tokens)
        start = time.perf_counter()
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))) != 0:
            raise RuntimeError("llama.cpp could not go on")
        self.api.llama_get_logits_ith(self.context, -1)
        return (time.perf_counter() - start) * 1e3

    def forget(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)

    def prefill(self, count):
        self.forget()
        return [self.feed(some_tokens(count, self.vocabulary))]

    def decode(self):
        self.prefill(PROMPT)
        return [sum(self.feed([token]) for token in some_tokens(STEPS, self.vocabulary)) / STEPS]


class Peer:
    """Loads the model at the first turn and warms up before each kind of work; `close` frees it."""

    def __init__(self, path, threads):
        self.path, self.threads, self.model = path, threads, None

    def turn(self, work):
        warm = False

        def run():
            nonlocal warm
            if self.model is None:
                self.model = LlamaCpp(self.path, self.threads)
            if not warm:
                work(self.model)
                warm = True
            return work(self.model)
        return run

    def close(self):
        if self.model is not None:
            self.model.close()


# ---------------------------------------------------------------- the rows


class Quantised:
    def __init__(self, folder, program, threads):
        self.folder, self.program, self.threads, self.ballast = folder, program, threads, Ballast(program)

    def rows(self):
        yield from self.rows_of("SmolLM2-135M q4_1", self.smollm2())
        for shape in (GPT2, LLAMA_1B):
            for type in ("q8_0", "q4_0"):
                path = self.folder / "model.gguf"
                RandomModel(path, shape, type)
                command("sync")
                yield from self.rows_of(f"{shape.name} {type}", path)
                path.unlink()

    def smollm2(self):
        return subprocess.run([self.program, "get", "smollm2"], check=True, capture_output=True, text=True).stdout.strip()

    def rows_of(self, name, path):
        for threads in self.threads:
            peer = Peer(path, threads)
            yield self.decode(name, path, threads, peer)
            for length in (PROMPT, LONG):
                yield self.prefill(name, path, threads, length, peer)
            peer.close()

    def decode(self, name, path, threads, peer):
        return Work(f"{name}, decode after {PROMPT} tokens", {
            "ballast": self.ballast.measure("decode", path, threads, "--prompt-tokens", PROMPT, "--max-tokens", STEPS),
            "llama.cpp": peer.turn(LlamaCpp.decode),
        }, speed_of(SHARE, "llama.cpp"), threads=threads)

    def prefill(self, name, path, threads, length, peer):
        return Work(f"{name}, prompt of {length} tokens", {
            "ballast": self.ballast.measure("prefill", path, threads, "--prompt-tokens", length, "--max-tokens", 1,
                                            per_item=False),
            "llama.cpp": peer.turn(lambda model: model.prefill(length)),
        }, None, threads=threads, items=length)
