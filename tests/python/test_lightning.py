"""ballast.lightning: a training in PyTorch Lightning that stops anywhere goes on to the same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ballast
from conftest import without_package

pytest.importorskip("lightning")
pytestmark = pytest.mark.filterwarnings("ignore")

import lightning  # noqa: E402
import torch  # noqa: E402

from ballast.lightning import BallastCheckpoint  # noqa: E402


class Stop(Exception):
    pass


class Regression(lightning.LightningModule):  # type: ignore[misc]
    """Dropout, a scheduler of each kind, validation, and a loss for each step."""

    def __init__(self, stop_at: int = -1) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1))
        self.losses: dict[int, float] = {}
        self.stop_at = stop_at

    def training_step(self, batch: Any, index: int) -> Any:
        if self.global_step == self.stop_at:
            raise Stop
        loss = (self.layers(batch[0]) - batch[0].sum(1, keepdim=True)).square().mean()
        self.losses[self.global_step] = float(loss)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.log("quality", -self.layers(batch[0]).square().mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "loss"}}


class StatefulLoader:
    """Shuffles by itself and can begin in the middle."""

    def __init__(self) -> None:
        self.data = torch.utils.data.TensorDataset(torch.randn(48, 4, generator=torch.Generator().manual_seed(1)))
        self.epoch, self.position, self.first = 0, 0, 0

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Any:
        order = torch.randperm(48, generator=torch.Generator().manual_seed(self.epoch))
        first, self.first = self.first, 0
        for self.position in range(first + 1, 7):
            rows = order[(self.position - 1) * 8 : self.position * 8]
            yield [self.data.tensors[0][rows]]
        self.epoch += 1

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.first = state["epoch"], state["position"]


def shuffled_loader() -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(48, 4, generator=torch.Generator().manual_seed(1)))
    return torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)


def fit(module: Any, loader: Any, checkpoints: Any = None, epochs: int = 4) -> None:
    lightning.seed_everything(3, verbose=False)
    validation = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 4)), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=checkpoints is not None, callbacks=[checkpoints] if checkpoints else [],
    )  # fmt: skip
    trainer.fit(module, loader, validation, ckpt_path=checkpoints.resume_path() if checkpoints else None)


@pytest.mark.parametrize("stop_at", [7, 12, 17, 23])
def test_a_training_goes_on_after_the_last_epoch_to_the_same_losses(stop_at: int, here: Path) -> None:
    undisturbed = Regression()
    fit(undisturbed, shuffled_loader())
    assert len(undisturbed.losses) == 24
    stopped = Regression(stop_at)
    with pytest.raises(Stop):
        fit(stopped, shuffled_loader(), BallastCheckpoint("run", sync=False))
    resumed = Regression()
    fit(resumed, shuffled_loader(), BallastCheckpoint("run", sync=False))
    assert min(resumed.losses) == stop_at // 6 * 6
    assert {**stopped.losses, **resumed.losses} == undisturbed.losses
    assert all(undisturbed.losses[step] == loss for step, loss in stopped.losses.items())
    for mine, theirs in zip(undisturbed.parameters(), resumed.parameters()):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("stop_at", [3, 8, 13, 19])
def test_a_training_goes_on_within_an_epoch_where_the_loader_can(stop_at: int, here: Path) -> None:
    undisturbed = Regression()
    fit(undisturbed, StatefulLoader())
    stopped = Regression(stop_at)
    with pytest.raises(Stop):
        fit(stopped, StatefulLoader(), BallastCheckpoint("run", every_n_steps=2, sync=False))
    resumed = Regression()
    fit(resumed, StatefulLoader(), BallastCheckpoint("run", every_n_steps=2, sync=False))
    assert stop_at - 2 < min(resumed.losses) <= stop_at
    assert {**stopped.losses, **resumed.losses} == undisturbed.losses


def test_the_best_by_a_logged_metric_stays_and_weights_are_exported(here: Path) -> None:
    module = Regression()
    fit(module, shuffled_loader(), BallastCheckpoint("run", keep_last=1, keep_best=1, metric="quality", larger_is_better=True))
    with ballast.CheckpointManager("run") as manager:
        assert manager.latest() == 24 and len(manager.steps()) <= 2
        assert manager.export("weights.safetensors") == 24
    with ballast.open("weights.safetensors") as file:
        assert set(file) == set(module.state_dict())


def test_other_checkpoints_of_lightning_go_where_they_went(here: Path) -> None:
    class Saving(Regression):
        def on_train_end(self) -> None:
            self.trainer.save_checkpoint("other.ckpt")

    fit(Saving(), shuffled_loader(), BallastCheckpoint("run", sync=False), epochs=1)
    assert torch.load("other.ckpt", weights_only=False)["global_step"] == 6


def test_a_damaged_newest_checkpoint_is_told(here: Path) -> None:
    fit(Regression(), shuffled_loader(), BallastCheckpoint("run", sync=False), epochs=2)
    for manifest in Path("run").glob("step-*.json"):
        manifest.write_text("{")
    with pytest.raises(ballast.FormatError, match="no checkpoint is sound"):
        fit(Regression(), shuffled_loader(), BallastCheckpoint("run", sync=False))


def test_its_absence_is_an_import_error_that_says_what_to_install(here: Path) -> None:
    done = without_package("lightning", "import ballast.lightning", also="pytorch_lightning")
    assert "ImportError: ballast.lightning needs PyTorch Lightning: pip install lightning" in done
