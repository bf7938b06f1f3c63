"""A training in PyTorch that may be killed at any moment and goes on where it was, to the same losses.

    python examples/python/resume_training.py runs/example --steps 200

Run it again after a kill, a crash or a power failure: everything that training depends on is in the checkpoint, the
weights, the optimizer's moments, the learning rate, the random states (dropout) and the order of the data.
"""

from __future__ import annotations

import argparse

import torch

import ballast


class Samples:
    """Shuffled batches with a position: what a data loader needs for a training to go on in the middle of an epoch."""

    def __init__(self, count: int, batch: int) -> None:
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(count, 16, generator=generator)
        self.targets = self.inputs.square().sum(1, keepdim=True).sqrt()
        self.batch = batch
        self.order = torch.randperm(count)
        self.position = 0

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self.position + self.batch > len(self.order):
            self.order = torch.randperm(len(self.order))
            self.position = 0
        chosen = self.order[self.position : self.position + self.batch]
        self.position += self.batch
        return self.inputs[chosen], self.targets[chosen]

    def state_dict(self) -> dict[str, object]:
        return {"order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, object]) -> None:
        self.order, self.position = state["order"], state["position"]


def train(folder: str, steps: int, save_every: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    samples = Samples(1000, 32)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "samples": samples}
    with ballast.CheckpointManager(folder, objects, keep_last=2) as checkpoints:
        restored = checkpoints.restore()
        first = restored.step if restored else 0
        for step in range(first + 1, steps + 1):
            inputs, targets = samples.next()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            print(f"step {step} loss {loss.item()!r}", flush=True)
            if step % save_every == 0 or step == steps:
                checkpoints.save(step, metrics={"loss": loss.item()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the checkpoints go")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=5)
    options = parser.parse_args()
    train(options.folder, options.steps, options.save_every)


if __name__ == "__main__":
    main()
