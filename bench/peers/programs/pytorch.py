"""PyTorch, eager, with its fused attention: text, images and training steps."""
import time

from .timing import milliseconds_of, pixels_of, some_tokens, stored


class PyTorch:
    name = "PyTorch"

    def __init__(self, work):
        import torch
        self.torch, self.work = torch, work
        torch.set_num_threads(work["threads"])
        torch.manual_seed(1)


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
        import sys
        from pathlib import Path
        sys.path.append(str(Path(__file__).resolve().parents[3] / "tests/interop"))
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


class PyTorchTraining(PyTorch):
    settings = ("fused optimiser", "plain optimiser")

    @staticmethod
    def takes(work):
        return work["kind"] == "training"

    def __init__(self, work, setting):
        super().__init__(work)
        name, self.fused = work["steps_of"], setting == "fused optimiser"
        self.autocast = name.endswith("-bf16")
        self.step = self.language_model() if name.startswith("gpt") else self.classifier(name)
        self.first_loss = self.step()
        for _ in range(2):
            self.step()

    def classifier(self, name):
        torch, nn = self.torch, self.torch.nn
        if name.startswith("mlp"):
            model, shape = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (64, 784)
        else:
            model, shape = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                                         nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)), (64, 1, 28, 28)
        x, y = torch.rand(shape), torch.randint(0, 10, (64,))
        optimizer = (torch.optim.SGD(model.parameters(), lr=0.01, fused=self.fused) if name.endswith("sgd")
                     else torch.optim.Adam(model.parameters(), lr=1e-3, fused=self.fused))
        return lambda: self.update(optimizer, lambda: nn.functional.cross_entropy(model(x), y))

    def language_model(self):
        import transformers
        from peers.torch_from_gguf import FUSED_GELU
        torch = self.torch
        config = transformers.GPT2Config(vocab_size=4096, n_positions=256, n_embd=256, n_layer=4, n_head=4, embd_pdrop=0,
                                         resid_pdrop=0, attn_pdrop=0, tie_word_embeddings=False,
                                         activation_function=FUSED_GELU)
        model = transformers.GPT2LMHeadModel(config).train()
        ids, targets = torch.randint(0, 4096, (8, 256)), torch.randint(0, 4096, (8, 256))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=self.fused)

        def loss():
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                logits = model(ids, use_cache=False).logits
            return torch.nn.functional.cross_entropy(logits.float().view(-1, 4096), targets.view(-1))
        return lambda: self.update(optimizer, loss)

    def update(self, optimizer, loss_of):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.item()

    def turn(self):
        times = []
        for _ in range(self.work["count"]):
            start = time.perf_counter()
            self.step()
            times.append((time.perf_counter() - start) * 1e3)
        times.sort()
        return {"ms": times[len(times) // 2]}

    def output(self):
        """The loss of the first step."""
        return self.first_loss
