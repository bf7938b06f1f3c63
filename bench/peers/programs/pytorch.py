"""PyTorch, eager, with its fused attention: text and images."""
import sys
from pathlib import Path

from .timing import milliseconds_of, pixels_of, some_tokens, stored


class PyTorch:
    name = "PyTorch"

    def __init__(self, work):
        import torch
        self.torch, self.work = torch, work
        torch.set_num_threads(work["threads"])
        torch.manual_seed(1)

    @staticmethod
    def use_interop():
        sys.path.append(str(Path(__file__).resolve().parents[3] / "tests/interop"))


class PyTorchText(PyTorch):
    """In the type of the weights; quantised weights are none of its work."""
    settings = ("eager",)

    @staticmethod
    def takes(work):
        return work["kind"] in ("decode", "prefill") and work["type"] in ("f32", "f16", "bf16")

    def __init__(self, work, setting):
        super().__init__(work)
        from peers.torch_from_gguf import load
        dtype = {"f32": self.torch.float32, "f16": self.torch.float16, "bf16": self.torch.bfloat16}[work["type"]]
        self.model = load(work["path"], dtype)
        self.prompt = some_tokens(work["prompt"], self.model.config.vocab_size)
        self.cache = self.feed(self.prompt).past_key_values if work["kind"] == "decode" else None

    def feed(self, tokens, cache=None):
        with self.torch.inference_mode():
            return self.model(self.torch.tensor([tokens]), past_key_values=cache, use_cache=True, logits_to_keep=1)

    def turn(self):
        if self.work["kind"] == "prefill":
            return {"ms": milliseconds_of(lambda: self.feed(self.prompt))}
        surplus = self.cache.get_seq_length() - self.work["prompt"]
        if surplus > 0:
            self.cache.crop(-surplus)
        steps = some_tokens(self.work["steps"], self.model.config.vocab_size)
        return {"ms": milliseconds_of(lambda: [self.feed([token], self.cache) for token in steps]) / len(steps)}

    def output(self, tokens):
        result = self.feed(tokens[:self.work["prompt"]])
        for token in tokens[self.work["prompt"]:]:
            result = self.feed([token], result.past_key_values)
        return stored(result.logits[0, -1].float().numpy())


class PyTorchImages(PyTorch):
    """With batch norms folded, as they are in Ballast's file, and as they were trained."""
    settings = ("channels last, folded", "contiguous, folded", "channels last")

    @staticmethod
    def takes(work):
        return work["kind"] == "image"

    def __init__(self, work, setting):
        super().__init__(work)
        self.use_interop()
        import torch_weights
        torch = self.torch
        dtype = torch.bfloat16 if work["type"] == "bf16" else torch.float32
        order = torch.channels_last if setting.startswith("channels last") else torch.contiguous_format
        model = torch_weights.build(work["network"])[0]
        if setting.endswith("folded"):  # in f32, which is rounded afterwards, as Ballast does it
            from torch.fx.experimental.optimization import fuse
            model = fuse(model)
        self.model = model.to(dtype=dtype, memory_format=order)
        self.pixels = torch.from_numpy(pixels_of(work)).to(dtype).contiguous(memory_format=order)

    def forward(self):
        with self.torch.inference_mode():
            return self.model(self.pixels).float().numpy()

    def turn(self):
        return {"ms": milliseconds_of(self.forward)}

    def output(self):
        return stored(self.forward())
