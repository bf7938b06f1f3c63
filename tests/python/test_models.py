"""ballast.load(): what models write, embed and classify is what the command writes, embeds and classifies."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from program import DATA, MODELS, ROOT, run_json

import ballast

DEFAULT = MODELS / "default"
PROMPT = "It is a truth"
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def model():
    with ballast.load(DEFAULT) as opened:
        yield opened


@pytest.fixture()
def long_model():
    """One whose texts are long enough to be interrupted."""
    with ballast.load(DEFAULT) as opened:
        yield opened


# ---------------------------------------------------------------- opening


def test_says_what_it_is(model):
    assert model.kind == "gpt"
    assert model.context_length == 256
    assert model.vocab_size == 1024
    assert model.param_bytes > 10_000_000
    assert "gpt" in repr(model)


def test_what_is_not_there_is_an_os_error():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ballast.load("nowhere.gguf")


def test_what_is_no_model_is_a_format_error(tmp_path):
    (tmp_path / "noise.bin").write_bytes(b"nothing of the kind" * 10)
    with pytest.raises(ballast.FormatError):
        ballast.load(tmp_path / "noise.bin")


@pytest.mark.parametrize("budget", ["4MiB", "30%", 0.3, 4_000_000])
def test_a_budget_changes_no_token(model, budget):
    with ballast.load(DEFAULT, param_budget=budget) as small:
        assert small.generate(PROMPT, max_tokens=8).text == model.generate(PROMPT, max_tokens=8).text


@pytest.mark.parametrize("budget", ["much", "-1", -1, "130%", "1 parsec"])
def test_a_budget_that_is_none_is_refused(budget):
    with pytest.raises(ValueError):
        ballast.load(DEFAULT, param_budget=budget)


def test_an_unknown_device_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="cpu"):
        ballast.load(DEFAULT, device="abacus")


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("seed", [0, 7])
def test_writes_what_the_command_writes(model, seed):
    told = run_json(
        "generate", DEFAULT / "model.gptrs", "--prompt", PROMPT, "--max-tokens", 24, "--seed", seed
    )
    generation = model.generate(PROMPT, max_tokens=24, seed=seed)
    assert generation.text == told["text"]
    assert generation.finish_reason == "length"
    assert generation.token_ids == told["tokens"]
    assert generation.prompt_tokens == len(told["prompt_tokens"])


def test_comes_piece_by_piece(model):
    generation = model.generate(PROMPT, max_tokens=10, temperature=0)
    pieces = list(generation)
    assert len(pieces) > 5
    assert "".join(pieces) == generation.text == model.generate(PROMPT, max_tokens=10, temperature=0).text
    assert len(generation.token_ids) == 10
    assert list(generation) == []


def test_tokens_have_ids_and_probabilities(model):
    generation = model.generate(PROMPT, max_tokens=5, temperature=0, log_probabilities=True)
    tokens = list(generation.tokens())
    assert [token.id for token in tokens] == generation.token_ids
    assert all(-20 < token.log_probability < 0 for token in tokens)


def test_a_prompt_may_be_ids(model):
    ids = model.tokenizer.encode(PROMPT).ids
    assert model.generate(ids, max_tokens=6).text == model.generate(PROMPT, max_tokens=6).text


def test_stop_texts_end_it_and_are_not_shown(model):
    whole = model.generate(PROMPT, max_tokens=20, temperature=0).text
    stop = whole[8:12]
    generation = model.generate(PROMPT, max_tokens=20, temperature=0, stop=stop)
    assert generation.text == whole[: whole.index(stop)]
    assert generation.finish_reason == "stop"


def test_stop_tokens_end_it(model):
    first = model.generate(PROMPT, max_tokens=1, temperature=0)
    assert first.text
    generation = model.generate(PROMPT, max_tokens=5, temperature=0, stop_token_ids=first.token_ids)
    assert generation.text == ""
    assert generation.finish_reason == "stop"


def test_a_timeout_ends_it(model):
    generation = model.generate(PROMPT, max_tokens=240, timeout=0.0)
    assert generation.text == ""
    assert generation.finish_reason == "timeout"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1}, "temperature"),
        ({"timeout": -1.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"top_p": 2}, "top_p|top-p|nucleus|\\[0, 1\\]|between"),
        ({"prompt": [5000]}, "5000"),
        ({"prompt": [1] * 300}, "300|context"),
    ],
)
def test_what_cannot_be_is_a_value_error(model, wrong, message):
    arguments = {"prompt": PROMPT, "max_tokens": 4, **wrong}
    with pytest.raises(ValueError, match=message):
        model.generate(arguments.pop("prompt"), **arguments).text


def test_wrong_types_are_type_errors(model):
    with pytest.raises(TypeError):
        model.generate(PROMPT, max_tokens="many")
    with pytest.raises(TypeError):
        model.generate([None])


# ---------------------------------------------------------------- many at once


def test_threads_share_the_engine_and_change_nothing(model):
    alone = [model.generate(PROMPT, max_tokens=16, seed=seed).text for seed in range(12)]
    before = model.counters["steps"]
    gate = threading.Barrier(12)

    def write(seed):
        generation = model.generate(PROMPT, max_tokens=16, seed=seed)
        gate.wait()
        return generation.text

    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(write, range(12)))
    assert together == alone
    assert model.counters["steps"] - before < 12 * 16 / 2, "one pass serves several"


def test_tasks_share_the_engine(model):
    alone = [model.generate(PROMPT, max_tokens=12, seed=seed).text for seed in range(20)]

    async def write(seed):
        return "".join([piece async for piece in model.generate(PROMPT, max_tokens=12, seed=seed)])

    async def write_all():
        return await asyncio.gather(*(write(seed) for seed in range(20)))

    before = model.counters["steps"]
    assert asyncio.run(write_all()) == alone
    assert model.counters["steps"] - before < 20 * 12 / 2


def test_a_cancelled_task_ends_its_text(model):
    async def main():
        generation = model.generate(PROMPT, max_tokens=200)

        async def read():
            async for _ in generation:
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return generation

    assert asyncio.run(main()).finish_reason == "cancelled"


def test_what_is_dropped_is_not_computed_on(model):
    generation = model.generate(PROMPT, max_tokens=200)
    next(generation)
    del generation
    gc.collect()
    model.generate(PROMPT, max_tokens=2).text
    counters = model.counters
    assert counters["running"] == 0
    assert counters["waiting"] == 0


def test_one_text_read_by_several_threads_is_whole(model):
    whole = model.generate(PROMPT, max_tokens=60, temperature=0).text
    generation = model.generate(PROMPT, max_tokens=60, temperature=0)
    with ThreadPoolExecutor(4) as pool:
        pieces = [piece for part in pool.map(lambda _: list(generation), range(4)) for piece in part]
    assert sorted("".join(pieces)) == sorted(whole)


# ---------------------------------------------------------------- chat


def test_chat_writes_with_the_template(tmp_path):
    for name in ("model.gptrs", "tokenizer.json"):
        shutil.copy(DEFAULT / name, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(CHATML)
    with ballast.load(tmp_path) as model:
        messages = [{"role": "user", "content": "How do you do?"}]
        answer = model.chat(messages, max_tokens=12, temperature=0)
        text = answer.text
        written = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        assert written == "<|user|>How do you do?\n<|assistant|>"
        assert text == model.generate(written, max_tokens=12, temperature=0).text
        assert model.chat("How do you do?", max_tokens=12, temperature=0).text == text
        assert answer.prompt_tokens == len(model.tokenizer.encode(written).ids)


def test_a_model_without_a_template_says_so(model):
    with pytest.raises(FileNotFoundError, match="chat template"):
        model.chat("hello")


def test_a_template_may_be_given():
    with ballast.load(DEFAULT, chat_template=CHATML) as model:
        assert model.chat("hello", max_tokens=4).text
    with ballast.load(DEFAULT, chat_template="{% if %}") as model, pytest.raises(ballast.FormatError):
        model.chat("hello")


# ---------------------------------------------------------------- forward, embed, classify


def test_forward_gives_the_logits_of_the_command(model, tmp_path):
    out = tmp_path / "logits.npz"
    run_json("forward", DEFAULT / "model.gptrs", "--tokens", "10,20,30", "--out", out)
    logits = model.forward([10, 20, 30])
    assert logits.shape == (3, 1024)
    assert logits.dtype == numpy.float32
    numpy.testing.assert_array_equal(logits, numpy.load(out)["logits"])
    numpy.testing.assert_array_equal(model.forward(numpy.array([10, 20, 30])), logits)


def test_embeds_as_the_command_does(encoder, tmp_path):
    texts = ["the ship sails", "dawn"]
    out = tmp_path / "vectors.npz"
    run_json("embed", encoder, "--text", texts[0], "--text", texts[1], "--out", out)
    with ballast.load(encoder) as model:
        vectors = model.embed(texts)
        numpy.testing.assert_array_equal(vectors, next(iter(numpy.load(out).values())))
        numpy.testing.assert_array_equal(model.embed(texts[0]), vectors[0])
        many = model.embed(texts * 400)
        numpy.testing.assert_array_equal(many, numpy.tile(vectors, (400, 1)))


def test_a_text_that_cannot_be_embedded_is_named_by_its_number(encoder, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["unk_token"] = ""
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with ballast.load(folder) as model, pytest.raises(ValueError, match="text 301: "):
        model.embed(["dawn"] * 300 + ["zeppelin"] + ["dawn"] * 99)


def test_a_model_that_does_not_embed_says_what_it_does(model):
    with pytest.raises(ValueError, match="text generation"):
        model.embed("text")
    with pytest.raises(ValueError, match="does not support"):
        model.classify(numpy.zeros((8, 8, 3), numpy.uint8))


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "digits.netcl"
    ballast.train(
        MODELS / "digits" / "train.toml",
        overrides={"train.steps": 60, "train.output": str(path)},
    )
    return path


def test_classifies_as_the_command_does(digits):
    pytest.importorskip("PIL")
    picture = MODELS / "digits" / "test" / "3.png"
    told = run_json("forward", digits, "--image", picture)["rows"][0]["top"]
    with ballast.load(digits) as model:
        found = model.classify(picture)
        assert [one.index for one in found] == [one["index"] for one in told]
        assert [one.logit for one in found] == pytest.approx([one["logit"] for one in told])
        assert sum(one.probability for one in model.classify(picture, top=10)) == pytest.approx(1)
        with pytest.raises(TypeError, match="uint8"):
            model.classify(numpy.zeros((8, 8), numpy.float32))
        with pytest.raises(ValueError, match="height"):
            model.classify(numpy.zeros((8, 8, 2), numpy.uint8))


def test_forward_takes_values(digits):
    images = numpy.load(MODELS / "digits" / "test.npz")["x"][:4].astype(numpy.float32) / 16
    with ballast.load(digits) as model:
        logits = model.forward(images[:, None])
        assert logits.shape == (4, 10)
        assert logits.argmax(axis=1).tolist() == numpy.load(MODELS / "digits" / "test.npz")["y"][:4].tolist()
        with pytest.raises(ValueError):
            model.forward(numpy.zeros((2,) * 9, numpy.float32))


# ---------------------------------------------------------------- its end


def test_use_after_close_is_a_value_error():
    model = ballast.load(DEFAULT)
    generation = model.generate(PROMPT, max_tokens=100)
    next(generation)
    model.close()
    model.close()
    assert model.closed
    for use in (lambda: model.generate(PROMPT), lambda: model.forward([1]), lambda: model.tokenizer):
        with pytest.raises(ValueError, match="closed"):
            use()
    with pytest.raises(ValueError, match="closed"):
        list(generation)
    assert list(generation) == []
    assert "closed" in repr(model)


def test_closing_ends_what_other_threads_read(long_model):
    generation = long_model.generate(PROMPT, max_tokens=240)
    outcome = []

    def read():
        try:
            outcome.append(generation.text)
        except ValueError as error:
            outcome.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.02)
    long_model.close()
    thread.join(20)
    assert not thread.is_alive()
    assert outcome


def python(code, **options):
    """Runs a program of its own, with this interpreter."""
    text = "import ballast, sys, os, threading, time, signal\n" + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", text, str(DEFAULT)],
        capture_output=True, text=True, timeout=120, cwd=ROOT, **options,
    )


def test_ctrl_c_ends_a_text():
    done = python(
        """
        model = ballast.load(sys.argv[1])
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                generation = model.generate("It is a truth", max_tokens=240)
                generation.text
        except KeyboardInterrupt:
            print("interrupted")
        print(len(model.generate("It is", max_tokens=3).text) > 0)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted", "True"]


def test_the_interpreter_may_end_while_threads_write():
    done = python(
        """
        model = ballast.load(sys.argv[1])
        def write():
            while True:
                model.generate("It is a truth", max_tokens=200).text
        for _ in range(4):
            threading.Thread(target=write, daemon=True).start()
        time.sleep(0.3)
        print("end")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "end\n"


def test_a_forked_child_opens_the_model_again():
    done = python(
        """
        model = ballast.load(sys.argv[1])
        expected = model.generate("It is a truth", max_tokens=8).text
        begun = model.generate("It is a truth", max_tokens=50)
        next(begun)
        child = os.fork()
        if child == 0:
            try:
                next(begun)
            except RuntimeError as error:
                print("fork" in str(error))
            print(model.generate("It is a truth", max_tokens=8).text == expected, flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        print(status, len(begun.text) > 0)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "0", "True"]


def test_multiprocessing_by_fork_works():
    done = python(
        """
        import multiprocessing
        model = ballast.load(sys.argv[1])
        expected = model.generate("It is", max_tokens=6).text
        def write(_):
            return model.generate("It is", max_tokens=6).text
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(set(pool.map(write, range(6))) == {expected})
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


# ---------------------------------------------------------------- speed


def test_a_call_costs_little(tmp_path):
    """All of a call on a network of one weight, which computes next to nothing: below what a call may add."""
    config = {
        "model": {"kind": "mlp", "hidden": []},
        "data": {"kind": "npz", "path": tmp_path / "line.npz"},
        "train": {"steps": 1, "output": tmp_path / "line.netcl", "threads": 1},
    }
    numpy.savez(tmp_path / "line.npz", x=numpy.ones((4, 1), numpy.float32), y=numpy.ones((4, 1), numpy.float32) / 3)
    ballast.train(config)
    x = numpy.ones((1, 1), numpy.float32)
    with ballast.load(tmp_path / "line.netcl", threads=1) as model:
        best = min(timeit.repeat(lambda: model.forward(x), number=1000, repeat=15)) / 1000
    assert best < 20e-6, f"{best * 1e6:.1f} us"
