"""ballast.transformers: the common calls of AutoTokenizer and AutoModelForCausalLM."""

from __future__ import annotations

import shutil

import numpy
import pytest
from program import DATA, MODELS

import ballast
from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

DEFAULT = MODELS / "default"
BERT = DATA / "tokenizers" / "wordpiece_bert_uncased.json"


@pytest.fixture(scope="module")
def tokenizer():
    made = AutoTokenizer.from_pretrained(DEFAULT)
    made.pad_token = "<|endoftext|>"
    return made


@pytest.fixture(scope="module")
def model():
    made = AutoModelForCausalLM.from_pretrained(DEFAULT, torch_dtype="auto", device_map="cpu")
    yield made
    made.ballast.close()


def test_ids_there_and_back(tokenizer):
    ids = tokenizer.encode("It is a truth")
    assert ids == tokenizer("It is a truth")["input_ids"] == tokenizer("It is a truth").input_ids
    assert tokenizer.decode(ids) == "It is a truth"
    assert tokenizer.batch_decode([ids, ids[:1]])[0] == "It is a truth"
    assert tokenizer.decode(numpy.array(ids)) == "It is a truth"
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize("It is a truth")) == ids
    assert tokenizer.convert_ids_to_tokens(ids) == tokenizer.tokenize("It is a truth")
    assert "".join(tokenizer.tokenize("It is")) == "It is"
    assert len(tokenizer) == tokenizer.vocab_size == 1024


@pytest.mark.parametrize("side", ["left", "right"])
def test_batches_are_padded(side):
    tokenizer = AutoTokenizer.from_pretrained(DEFAULT, padding_side=side)
    with pytest.raises(ValueError, match="pad_token"):
        tokenizer(["a b", "a"], padding=True)
    tokenizer.pad_token_id = 7
    batch = tokenizer(["a b c", "a"], padding=True, return_tensors="np")
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (2, 3)
    assert batch["input_ids"].dtype == numpy.int64
    padded = batch["attention_mask"][1].tolist()
    assert padded == ([0, 0, 1] if side == "left" else [1, 0, 0])
    assert set(batch["input_ids"][1][numpy.array(padded) == 0]) == {7}
    longer = tokenizer(["a"], padding="max_length", max_length=5, return_tensors="np")
    assert longer["input_ids"].shape == (1, 5)
    assert tokenizer(["a"], padding=True, pad_to_multiple_of=4, return_tensors="np")["input_ids"].shape == (1, 4)
    again = tokenizer.pad({"input_ids": [[1, 2], [3]]}, return_tensors="np")
    assert again["attention_mask"].sum() == 3


def test_texts_are_cut(tokenizer):
    assert len(tokenizer("a b c d e", truncation=True, max_length=3)["input_ids"]) == 3
    bert = AutoTokenizer.from_pretrained(BERT)
    whole = bert("the water is over there")["input_ids"]
    cut = bert("the water is over there", truncation=True, max_length=5)["input_ids"]
    assert len(cut) == 5
    assert (cut[0], cut[-1]) == (whole[0], whole[-1]), "the marks around the text stay"
    assert cut[1:-1] == whole[1:4]
    with pytest.raises(ValueError, match="max_length"):
        tokenizer("a", truncation=True)


def test_masks_types_and_offsets():
    bert = AutoTokenizer.from_pretrained(BERT)
    made = bert("the water", "over there", return_token_type_ids=True, return_offsets_mapping=True,
                return_special_tokens_mask=True)
    assert set(made["token_type_ids"]) == {0, 1}
    assert made["special_tokens_mask"][0] == 1
    assert made["offset_mapping"][0] == (0, 0)
    assert made["offset_mapping"][1] == (0, 3)


def test_tensors_of_different_lengths_are_refused(tokenizer):
    with pytest.raises(ValueError, match="padding"):
        tokenizer(["a b c", "a"], return_tensors="np")
    with pytest.raises(ValueError, match="return_tensors"):
        tokenizer("a", return_tensors="tf")


def test_torch_tensors(tokenizer, model):
    torch = pytest.importorskip("torch")
    batch = tokenizer("It is a truth", return_tensors="pt")
    assert isinstance(batch["input_ids"], torch.Tensor)
    out = model.generate(**batch.to("cpu"), max_new_tokens=4, do_sample=False)
    assert isinstance(out, torch.Tensor)
    assert out.shape == (1, batch["input_ids"].shape[1] + 4)


def test_generates_what_the_model_writes(tokenizer, model):
    inputs = tokenizer("It is a truth", return_tensors="np")
    out = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    prompt = inputs["input_ids"].shape[1]
    assert out[0, :prompt].tolist() == inputs["input_ids"][0].tolist()
    expected = model.ballast.generate("It is a truth", max_tokens=8, temperature=0)
    assert tokenizer.decode(out[0, prompt:]) == expected.text


def test_rows_of_a_batch_are_what_each_is_alone(model):
    tokenizer = AutoTokenizer.from_pretrained(DEFAULT, padding_side="left")
    tokenizer.pad_token = "<|endoftext|>"
    texts = ["It is a truth", "She", "The water was so cold that"]
    batch = tokenizer(texts, padding=True, return_tensors="np")
    out = model.generate(**batch, max_new_tokens=6, do_sample=False)
    for row, text in zip(out, texts):
        alone = model.generate(tokenizer(text, return_tensors="np")["input_ids"], max_new_tokens=6, do_sample=False)
        assert row[-6:].tolist() == alone[0, -6:].tolist()


def test_samples_several_answers(model):
    out = model.generate([[10, 20, 30]], max_new_tokens=12, do_sample=True, temperature=1.2, num_return_sequences=3)
    assert out.shape == (3, 15)
    assert len({tuple(row) for row in out.tolist()}) > 1
    assert (out[:, :3] == [10, 20, 30]).all()


def test_an_end_token_ends_a_row_and_the_rest_is_padding(model):
    free = model.generate([[10, 20, 30]], max_new_tokens=6, do_sample=False)[0, 3:].tolist()
    end = free[2]
    out = model.generate([[10, 20, 30]], max_new_tokens=6, do_sample=False, eos_token_id=end)[0, 3:].tolist()
    assert out == free[: free.index(end) + 1]


def test_max_length_counts_the_prompt(model):
    assert model.generate([[10, 20, 30]], max_length=7, do_sample=False).shape == (1, 7)


def test_logits(model):
    made = model([[10, 20, 30]])
    assert made.logits.shape == (1, 3, 1024)
    numpy.testing.assert_array_equal(made.logits[0], model.ballast.forward([10, 20, 30]))


def test_a_streamer_is_told(model):
    class Streamer:
        def __init__(self):
            self.ids, self.ended = [], False

        def put(self, ids):
            self.ids.extend(numpy.asarray(ids).reshape(-1).tolist())

        def end(self):
            self.ended = True

    streamer = Streamer()
    out = model.generate([[10, 20]], max_new_tokens=4, do_sample=False, streamer=streamer)
    assert streamer.ended
    assert streamer.ids == out[0].tolist()


def test_chat_templates(tmp_path):
    shutil.copy(DEFAULT / "tokenizer.json", tmp_path)
    (tmp_path / "chat_template.jinja").write_text(
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": "user", "content": "hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "[user] hi\n>"
    assert tokenizer.apply_chat_template(messages, add_generation_prompt=True) == tokenizer.encode(text)
    made = tokenizer.apply_chat_template(messages, return_dict=True, return_tensors="np")
    assert made["input_ids"].shape == made["attention_mask"].shape
    assert tokenizer.apply_chat_template([messages, messages], tokenize=False) == ["[user] hi\n"] * 2


@pytest.mark.parametrize("tokenize", [True, False])
@pytest.mark.parametrize("given", ["Hello", b"Hello", ["Hello"], {"role": "user", "content": "Hello"}, [["Hello"]], None])
def test_what_is_no_conversation_is_refused(tokenizer, given, tokenize):
    with pytest.raises(TypeError, match=r'apply_chat_template\(\).*"role"'):
        tokenizer.apply_chat_template(given, chat_template="{{ messages }}", tokenize=tokenize)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A cache of huggingface_hub with two revisions of a model, of which one cannot be opened."""
    folder = tmp_path / "models--org--name"
    shutil.copytree(DEFAULT, folder / "snapshots" / "bbb")
    (folder / "snapshots" / "aaa").mkdir()
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("aaa")
    (folder / "refs" / "v2").write_text("bbb")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))


@pytest.mark.parametrize("open_", [AutoTokenizer.from_pretrained, AutoModelForCausalLM.from_pretrained])
def test_a_revision_is_honoured_or_refused(hub, open_):
    for revision in ("v2", "bbb"):
        assert open_("org/name", revision=revision).name_or_path.endswith("bbb")
    for revision in (None, "main", "v3"):
        with pytest.raises((OSError, ValueError)):
            open_("org/name", revision=revision)
    assert open_(DEFAULT, revision="main").name_or_path == str(DEFAULT)
    with pytest.raises(ValueError, match="revision"):
        open_(DEFAULT, revision="v2")


def test_arguments_without_effect_are_listed():
    from ballast import transformers
    from ballast.transformers import _arguments

    assert _arguments._LOADING
    for name in _arguments._LOADING:
        assert f"``{name}``" in transformers.__doc__


def test_what_it_has_not_is_refused(model):
    with pytest.raises(ValueError, match="beam"):
        model.generate([[1]], num_beams=4)
    with pytest.raises(TypeError):
        model.generate([[1]], colour="blue")
    with pytest.raises(TypeError, match="colour"):
        AutoTokenizer.from_pretrained(DEFAULT, colour="blue")
    with pytest.raises(TypeError):
        AutoTokenizer()
    with pytest.raises(ValueError, match="input_ids"):
        model.generate()
    with pytest.raises(FileNotFoundError):
        AutoModelForCausalLM.from_pretrained("nowhere")
    assert isinstance(model.ballast, ballast.Model)
