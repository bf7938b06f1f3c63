"""llama.cpp through its C interface, on the GGUF file that Ballast reads too."""
import ctypes

from .timing import milliseconds_of, some_tokens, stored


class LlamaCpp:
    name = "llama.cpp"
    settings = ("flash attention", "no flash attention")
    keeps = "f16"  # keys and values, whatever the weights are: its logits come no nearer

    @staticmethod
    def takes(work):
        return work["kind"] in ("decode", "prefill")

    def __init__(self, work, setting):
        import llama_cpp
        self.api, self.work = llama_cpp, work
        self.silence = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silence, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(work["path"].encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {work['path']}")
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = work["prompt"] + work.get("steps", 0) + 64
        settings.n_batch = settings.n_ubatch = min(512, work["prompt"])
        settings.n_threads = settings.n_threads_batch = work["threads"]
        settings.flash_attn_type = 1 if setting == "flash attention" else 0
        self.batch = settings.n_batch
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.prompt = some_tokens(work["prompt"], self.vocabulary)
        if work["kind"] == "decode":
            self.feed(self.prompt)

    def feed(self, tokens):
        for at in range(0, len(tokens), self.batch):
            piece = tokens[at:at + self.batch]
            array = (self.api.llama_token * len(piece))(*piece)
            if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(piece))) != 0:
                raise RuntimeError("llama.cpp could not go on")
        return self.api.llama_get_logits_ith(self.context, -1)

    def forget_from(self, position):
        if not self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), 0, position, -1):
            raise RuntimeError("llama.cpp does not forget tokens")

    def turn(self):
        if self.work["kind"] == "prefill":
            self.forget_from(0)
            return {"ms": milliseconds_of(lambda: self.feed(self.prompt))}
        self.forget_from(self.work["prompt"])
        steps = some_tokens(self.work["steps"], self.vocabulary)
        return {"ms": milliseconds_of(lambda: [self.feed([token]) for token in steps]) / len(steps)}

    def output(self, tokens):
        """The logits behind tokens, those behind the prompt fed one by one where decoding is compared."""
        import numpy
        self.forget_from(0)
        logits = self.feed(tokens[:self.work["prompt"]])
        for token in tokens[self.work["prompt"]:]:
            logits = self.feed([token])
        path = stored(numpy.ctypeslib.as_array(logits, (self.vocabulary,)))
        self.forget_from(self.work["prompt"])
        return path
