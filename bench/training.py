"""The rows of the training table: one step (forward, backward, update) of Ballast beside eager PyTorch and netcl.

Each turn of Ballast and of netcl is a process of its own that warms up and then measures some steps; PyTorch runs in
this process, warmed up before its first turn. Times are those of one step.
"""
import json, subprocess, time
from pathlib import Path

from runtime import Work
from storage import speed_of

NETCL_PEER = Path(__file__).parent / "peers/netcl_step.py"


class Torch:
    """Eager, f32."""

    def __init__(self):
        import torch
        self.torch = torch
        self.torch.manual_seed(1)

    def steps(self, make, threads, count):
        """`make` gives a step as a function."""
        step = None

        def turn():
            nonlocal step
            self.torch.set_num_threads(threads)
            if step is None:
                step = make()
                for _ in range(3):
                    step()
            times = []
            for _ in range(count):
                begin = time.perf_counter()
                step()
                times.append((time.perf_counter() - begin) * 1e3)
            return times
        return turn

    def classifier(self, model, shape, optimizer):
        torch = self.torch
        x, y = torch.rand(shape), torch.randint(0, 10, (shape[0],))
        update = optimizer(model.parameters())

        def step():
            update.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            update.step()
            return loss.item()
        return step

    def mlp(self, optimizer):
        nn = self.torch.nn
        model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
        return self.classifier(model, (64, 784), optimizer)

    def cnn(self, optimizer):
        nn = self.torch.nn
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
        return self.classifier(model, (64, 1, 28, 28), optimizer)

    def gpt(self, optimizer):
        import transformers
        torch = self.torch
        config = transformers.GPT2Config(vocab_size=4096, n_positions=256, n_embd=256, n_layer=4, n_head=4, embd_pdrop=0,
                                         resid_pdrop=0, attn_pdrop=0, tie_word_embeddings=False)
        model = transformers.GPT2LMHeadModel(config).train()
        ids, targets = torch.randint(0, 4096, (8, 256)), torch.randint(0, 4096, (8, 256))
        update = optimizer(model.parameters())

        def step():
            update.zero_grad(set_to_none=True)
            logits = model(ids, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 4096), targets.view(-1))
            loss.backward()
            update.step()
            return loss.item()
        return step


class Training:
    def __init__(self, program, netcl_python, threads):
        self.program, self.netcl_python, self.threads = program, netcl_python, threads
        self.torch = Torch()

    def ours(self, work, threads, count):
        def turn():
            words = [self.program, work, "--threads", threads, "--steps", count]
            done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
            return json.loads(done.stdout)["times_ms"]
        return turn

    def netcl(self, work, count):
        def turn():
            done = subprocess.run([str(self.netcl_python), str(NETCL_PEER), work, str(count)], check=True,
                                  capture_output=True, text=True)
            return json.loads(done.stdout)["times_ms"]
        return turn

    def rows(self):
        optim = self.torch.torch.optim
        sgd, adam = (lambda p: optim.SGD(p, lr=0.01)), (lambda p: optim.Adam(p, lr=1e-3))
        adamw = lambda p: optim.AdamW(p, lr=1e-3)
        for threads in self.threads:
            yield self.row("MLP 784-128-10, batch 64, SGD", "mlp-sgd", threads, 100, lambda: self.torch.mlp(sgd), 1.5, 64)
            yield self.row("MLP 784-128-10, batch 64, Adam", "mlp-adam", threads, 100, lambda: self.torch.mlp(adam), 1.5, 64)
            yield self.row("CNN 32-64 of 3 x 3, batch 64, Adam", "cnn-adam", threads, 5, lambda: self.torch.cnn(adam), 1, 64)
            yield self.row("GPT 4 x 256, context 256, batch 8, AdamW", "gpt-adamw", threads, 2,
                           lambda: self.torch.gpt(adamw), 1, 8 * 256)

    def row(self, name, work, threads, count, make, factor, items):
        contenders = {"ballast": self.ours(work, threads, count),
                      "PyTorch": self.torch.steps(make, threads, count)}
        if self.netcl_python and work.startswith("mlp") and threads == max(self.threads):  # PoCL takes all cores
            contenders["netcl on PoCL"] = self.netcl(work, 5)
        return Work(name, contenders, speed_of(factor, "PyTorch"), threads=threads,
                    unit="tokens/s" if work.startswith("gpt") else "images/s", items=items)
