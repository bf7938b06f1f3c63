"""ballast.hf_trainer: a training with Hugging Face's Trainer that stops anywhere goes on to the same losses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ballast
from conftest import bytes_read, without_package

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402

from ballast.hf_trainer import BallastCallback  # noqa: E402


class Stop(Exception):
    pass


def make_model() -> Any:
    torch.manual_seed(7)
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.2, embd_pdrop=0.2)
    return transformers.GPT2LMHeadModel(config)  # its weights are tied


def make_data() -> list[dict[str, Any]]:
    tokens = torch.randint(0, 32, (40, 12), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in tokens]


class Recording(transformers.Trainer):  # type: ignore[misc]
    def __init__(self, *words: Any, stop_at: int = -1, **options: Any) -> None:
        super().__init__(*words, **options)
        self.losses: dict[tuple[int, int], float] = {}
        self.stop_at = stop_at

    def training_step(self, *words: Any, **options: Any) -> Any:
        step = self.state.global_step
        if step == self.stop_at:
            raise Stop
        loss = super().training_step(*words, **options)
        number = sum(1 for other, _ in self.losses if other == step)
        self.losses[step, number] = float(loss)
        return loss


def train(checkpoints: Any = None, stop_at: int = -1, accumulate: int = 1) -> Any:
    arguments = transformers.TrainingArguments(
        "out", num_train_epochs=3, per_device_train_batch_size=4, save_strategy="no", logging_steps=1, report_to=[],
        disable_tqdm=True, use_cpu=True, learning_rate=1e-2, lr_scheduler_type="cosine", gradient_accumulation_steps=accumulate,
    )  # fmt: skip
    trainer = Recording(
        make_model(), arguments, train_dataset=make_data(), callbacks=[checkpoints] if checkpoints else [], stop_at=stop_at
    )
    try:
        trainer.train(resume_from_checkpoint=checkpoints.resume_folder() if checkpoints else None)
    except Stop:
        checkpoints.close()
    return trainer


@pytest.mark.parametrize(("stop_at", "accumulate"), [(4, 1), (11, 1), (20, 1), (21, 1), (7, 2)])
def test_a_training_goes_on_to_the_same_losses(stop_at: int, accumulate: int, here: Path) -> None:
    undisturbed = train(accumulate=accumulate)
    steps = undisturbed.state.global_step
    assert steps == 30 // accumulate
    stopped = train(BallastCallback("run", every_n_steps=3, sync=False), stop_at, accumulate)
    assert max(step for step, _ in stopped.losses) == stop_at - 1
    resumed = train(BallastCallback("run", every_n_steps=3, sync=False), accumulate=accumulate)
    assert min(step for step, _ in resumed.losses) == (stop_at - 1) // 3 * 3 or min(resumed.losses)[0] == stop_at // 3 * 3
    assert {**stopped.losses, **resumed.losses} == undisturbed.losses
    for mine, theirs in zip(undisturbed.model.parameters(), resumed.model.parameters()):
        assert torch.equal(mine, theirs)
    history = [row["loss"] for row in resumed.state.log_history if "loss" in row]
    assert history == [row["loss"] for row in undisturbed.state.log_history if "loss" in row]


def test_the_end_is_saved_and_its_weights_are_exported(here: Path) -> None:
    trainer = train(BallastCallback("run", every_n_steps=1000, sync=False))
    with ballast.CheckpointManager("run") as manager:
        assert manager.steps() == [30]
        manager.export("weights.safetensors")
    with ballast.open("weights.safetensors") as file:
        # Tied weights are stored once.
        assert set(trainer.model.state_dict()) - set(file) <= {"lm_head.weight"}


def test_resuming_reads_the_checkpoint_once(here: Path) -> None:
    model = torch.nn.Linear(2048, 2048, bias=False)
    with ballast.CheckpointManager("run", {"model": model}, rng=False) as manager:
        manager.save(3, {"trainer": "the trainer's own state"})
    before = bytes_read()
    assert BallastCallback("run").resume_folder() == "run/resume"
    assert model.weight.nbytes <= bytes_read() - before < 1.2 * model.weight.nbytes
    with ballast.open("run/resume/model.safetensors") as file:
        assert torch.equal(torch.from_numpy(file["weight"].numpy()), model.weight)
    assert Path("run/resume/trainer_state.json").read_text() == "the trainer's own state"


def test_a_folder_that_is_not_given_to_train_is_an_error(here: Path) -> None:
    train(BallastCallback("run", every_n_steps=3, sync=False), stop_at=5)
    checkpoints = BallastCallback("run", every_n_steps=3, sync=False)
    assert checkpoints.resume_folder() is not None
    arguments = transformers.TrainingArguments("out", save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True)
    trainer = transformers.Trainer(make_model(), arguments, train_dataset=make_data(), callbacks=[checkpoints])
    with pytest.raises(ValueError, match="give resume_folder"):
        trainer.train()
    checkpoints.close()


def test_its_absence_is_an_import_error_that_says_what_to_install(here: Path) -> None:
    done = without_package("transformers", "import ballast.hf_trainer")
    assert "ImportError: ballast.hf_trainer needs transformers: pip install transformers accelerate" in done
