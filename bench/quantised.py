"""The rows of the table of quantised models: Ballast beside llama.cpp on the same GGUF files.

Each turn of Ballast is a process of its own that warms up once and then measures once; llama.cpp runs in this process,
one context for each row, warmed up once before its first turn. Times are those of one token or one prompt.
"""
import ctypes, subprocess, time

from random_gguf import GPT2, LLAMA_1B, RandomModel
from runtime import Ballast, Work, some_tokens
from storage import command, speed_of

PROMPT = 128
STEPS = 32
LONG = 512
SHARE = 0.8  # of llama.cpp's speed at writing text, asked of Ballast


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
