"""PyTorch's training steps, eager: the weights that Ballast begins with, and the batch of bench/training_bench.cc."""
import time

from .pytorch import PyTorch

CLASSES, EXAMPLES = 10, 64
VOCABULARY, CONTEXT, TEXTS = 4096, 256, 8
FIRST_STEPS = 5  # whose losses are compared


def counter_random(seed, count):
    """The first numbers of a seed, as ballast/base/counter_random.h has them."""
    import numpy
    from torch_weights import GOLDEN, MASK, mix
    start = mix(numpy.array([(seed + GOLDEN) & MASK], numpy.uint64))
    return mix(numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GOLDEN) + start)


class PyTorchTraining(PyTorch):
    settings = ("fused optimiser", "plain optimiser")

    @staticmethod
    def takes(work):
        return work["kind"] == "training"

    def __init__(self, work, setting):
        super().__init__(work)
        from safetensors.torch import load_file
        self.use_interop()
        name, self.fused = work["steps_of"], setting == "fused optimiser"
        self.autocast = name.endswith("-bf16")
        weights = load_file(work["weights"])
        self.step = self.language_model(weights) if name.startswith("gpt") else self.classifier(name, weights)
        self.losses = [self.step() for _ in range(FIRST_STEPS)]

    def random_ids(self, seed, count, below):
        return self.torch.from_numpy((counter_random(seed, count) % below).astype("int64"))

    def classifier(self, name, weights):
        torch, nn = self.torch, self.torch.nn
        if name.startswith("mlp"):
            model, shape = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, CLASSES)), (EXAMPLES, 784)
        else:
            shape = (EXAMPLES, 1, 28, 28)
            model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                                  nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, CLASSES))
        model.load_state_dict({key: t.T.contiguous() if t.dim() == 2 else t for key, t in weights.items()})
        pixels = (counter_random(1, EXAMPLES * 784) >> 11).astype("float64") * 2.0**-53
        x, y = torch.from_numpy(pixels.astype("float32")).view(shape), self.random_ids(2, EXAMPLES, CLASSES)
        optimizer = (torch.optim.SGD(model.parameters(), lr=0.01, fused=self.fused) if name.endswith("sgd")
                     else torch.optim.Adam(model.parameters(), lr=1e-3, fused=self.fused))
        return lambda: self.update(optimizer, lambda: nn.functional.cross_entropy(model(x), y))

    def language_model(self, weights):
        import transformers
        from peers.torch_from_gguf import FUSED_GELU
        torch = self.torch
        config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=256, n_layer=4, n_head=4,
                                         embd_pdrop=0, resid_pdrop=0, attn_pdrop=0, tie_word_embeddings=False,
                                         bos_token_id=None, eos_token_id=None, activation_function=FUSED_GELU)
        model = transformers.GPT2LMHeadModel(config).train()
        model.load_state_dict(self.named_as_gpt2(weights, config.n_layer))
        ids = torch.stack([self.random_ids(text, CONTEXT, VOCABULARY) for text in range(TEXTS)])
        targets = torch.cat([self.random_ids(text + 100, CONTEXT, VOCABULARY) for text in range(TEXTS)])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=self.fused)

        def loss():
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                logits = model(ids, use_cache=False).logits
            return torch.nn.functional.cross_entropy(logits.float().view(-1, VOCABULARY), targets)
        return lambda: self.update(optimizer, loss)

    @staticmethod
    def named_as_gpt2(weights, layers):
        """Both have matrices as [in, out], apart from PyTorch's head."""
        names = {"transformer.wte.weight": "tok_embeddings.weight", "transformer.wpe.weight": "pos_embeddings",
                 "transformer.ln_f.weight": "final_ln.gamma", "transformer.ln_f.bias": "final_ln.beta"}
        for i in range(layers):
            for theirs, ours in (("ln_1.weight", "ln_1.gamma"), ("ln_1.bias", "ln_1.beta"), ("ln_2.weight", "ln_2.gamma"),
                                 ("ln_2.bias", "ln_2.beta"), ("attn.c_attn.weight", "attention.w_qkv"),
                                 ("attn.c_attn.bias", "attention.b_qkv"), ("attn.c_proj.weight", "attention.w_out"),
                                 ("attn.c_proj.bias", "attention.b_out"), ("mlp.c_fc.weight", "feed_forward.w_in"),
                                 ("mlp.c_fc.bias", "feed_forward.b_in"), ("mlp.c_proj.weight", "feed_forward.w_out"),
                                 ("mlp.c_proj.bias", "feed_forward.b_out")):
                names[f"transformer.h.{i}.{theirs}"] = f"blocks.{i}.{ours}"
        return {"lm_head.weight": weights["lm_head"].T.contiguous(), **{key: weights[name] for key, name in names.items()}}

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
        """The losses of the first steps."""
        return self.losses
