"""ballast.Tokenizer: the same tokens, texts and offsets as the tokenizers package, and as the command."""

from __future__ import annotations

import gc
import json
import pickle
import shutil
import threading

import pytest
from program import DATA, MODELS, run

import ballast

FILES = sorted(path.name for path in (DATA / "tokenizers").glob("*.json") if not path.name.endswith(".expect.json"))
HUGGING_FACE = [name for name in FILES if name not in ("gptrs_flat.json", "texts.json")]
TEXTS = json.loads((DATA / "tokenizers" / "texts.json").read_text())


@pytest.fixture(scope="module")
def tokenizer():
    return ballast.Tokenizer(MODELS / "default")


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_encodes_as_recorded(name):
    tokenizer = ballast.Tokenizer(DATA / "tokenizers" / name)
    recorded = json.loads((DATA / "tokenizers" / name.replace(".json", ".expect.json")).read_text())
    for row in recorded["rows"]:
        text = TEXTS[row["text"]]
        encoding = tokenizer.encode(text, fit_length=True)
        assert encoding.ids == row["ids"]
        if "special_mask" in row:
            assert encoding.special_tokens_mask == row["special_mask"]
        assert tokenizer.decode(row["ids"]) == row["decoded"]
        pairs = iter(row["offsets"])
        assert encoding.offsets == list(zip(pairs, pairs)), text


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_agrees_with_the_tokenizers_package(name):
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_file(str(DATA / "tokenizers" / name))
    ours = ballast.Tokenizer(DATA / "tokenizers" / name)
    texts = ["Hello, wörld!", "  spaces   and\ttabs\n", "日本語 and ελληνικά", "naïve café ﬁne", "a" * 40, "1,234.5"]
    for text in texts:
        expected, found = theirs.encode(text), ours.encode(text, fit_length=True)
        assert found.ids == expected.ids, text
        assert found.offsets == expected.offsets, text
        assert found.attention_mask == expected.attention_mask


def test_encodes_as_the_command_does(tokenizer):
    text = "It is a truth universally acknowledged"
    told = run("tokenize", MODELS / "default" / "model.gptrs", "--text", text, "--ids")
    assert tokenizer.encode(text).ids == [int(id) for id in told.split(",")]


def test_batches_are_what_each_text_is_alone(tokenizer):
    texts = [f"{text} {number}" for number in range(50) for text in TEXTS]
    for threads in (1, 4):
        batch = tokenizer.encode_batch(texts, threads=threads)
        assert [encoding.ids for encoding in batch] == [tokenizer.encode(text).ids for text in texts]
    assert tokenizer.encode_batch(text for text in texts[:3])[2].ids == tokenizer.encode(texts[2]).ids
    assert tokenizer.encode_batch([]) == []


def test_ids_belong_to_the_caller():
    tokenizer = ballast.Tokenizer(MODELS / "default")
    texts = ["It is a truth universally acknowledged", "It is a truth", ""]
    encodings = tokenizer.encode_batch(texts)
    kept = [encoding.ids for encoding in encodings]
    assert max(kept[0]) > 256  # smaller numbers are shared by Python itself
    encodings[0].ids.clear()
    assert encodings[0].ids == kept[0] == tokenizer.encode(texts[0]).ids
    del encodings, tokenizer
    gc.collect()
    again = ballast.Tokenizer(MODELS / "default")
    assert kept == [again.encode(text).ids for text in texts]


def test_offsets_count_characters(tokenizer):
    text = "naïve 日本"
    encoding = tokenizer.encode(text)
    for (begin, end), token in zip(encoding.offsets, encoding.tokens):
        assert 0 <= begin < end <= len(text)
        if "\ufffd" not in token:
            assert text[begin:end] == token


def test_offsets_of_a_pair_are_in_their_own_texts():
    tokenizer = ballast.Tokenizer(DATA / "tokenizers" / "wordpiece_bert_uncased.json")
    first, second = "the water", "the other one"
    encoding = tokenizer.encode(first, second)
    assert len(encoding.offsets) == len(encoding.ids) == len(encoding.type_ids)
    for (begin, end), type_id, special in zip(encoding.offsets, encoding.type_ids, encoding.special_tokens_mask):
        assert (begin, end) == (0, 0) if special else end <= len(second if type_id else first)


def test_marks_in_what_users_typed_are_text(tokenizer):
    end = tokenizer.token_to_id("<|endoftext|>")
    assert end is not None
    assert tokenizer.encode("<|endoftext|>").ids == [end]
    assert end not in tokenizer.encode("<|endoftext|>", special_tokens=False).ids
    assert tokenizer.is_special(end)
    assert tokenizer.id_to_token(end) == "<|endoftext|>"
    assert tokenizer.decode([end]) == ""
    assert tokenizer.decode([end], skip_special_tokens=False) == "<|endoftext|>"


def test_bytes_are_a_tokenizer(tmp_path):
    assert ballast.Tokenizer("bytes").encode("añ").ids == [97, 195, 177]


def test_what_is_wrong_raises(tokenizer, tmp_path):
    with pytest.raises(FileNotFoundError):
        ballast.Tokenizer(tmp_path / "nothing.json")
    (tmp_path / "noise.json").write_text("{]")
    with pytest.raises(ballast.FormatError):
        ballast.Tokenizer(tmp_path / "noise.json")
    with pytest.raises(TypeError):
        tokenizer.encode(b"bytes")
    with pytest.raises(TypeError):
        tokenizer.encode_batch(["a", 3])
    with pytest.raises(ValueError):
        tokenizer.decode([10**6])
    with pytest.raises((TypeError, ValueError, OverflowError)):
        tokenizer.decode([-1])
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encode("\ud800")
    assert tokenizer.id_to_token(10**6) is None


def test_threads_may_share_one(tokenizer):
    failures = []

    def encode():
        for text in TEXTS * 20:
            if tokenizer.decode(tokenizer.encode(text).ids) != text:
                failures.append(text)

    threads = [threading.Thread(target=encode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_batches_leave_the_gil_alone(tokenizer):
    """Another thread goes on while a batch is encoded."""
    texts = ["It is a truth universally acknowledged, that a single man " * 400] * 40
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    tokenizer.encode_batch(texts, threads=1)
    after = counted[0]
    done.set()
    thread.join()
    assert after - before > 1000


def test_survives_pickling(tokenizer):
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode("a b").ids == tokenizer.encode("a b").ids
    assert "1024" in repr(again)


def test_chat_templates(tmp_path):
    shutil.copy(MODELS / "default" / "tokenizer.json", tmp_path)
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    (tmp_path / "chat_template.jinja").write_text(template)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<|endoftext|>"}')
    tokenizer = ballast.Tokenizer(tmp_path)
    assert tokenizer.chat_template == template
    messages = [{"role": "user", "content": "<|endoftext|>hi"}]
    assert tokenizer.apply_chat_template(messages) == "<|endoftext|>[user]<|endoftext|>hi"
    ids = tokenizer.encode_chat(messages)
    end = tokenizer.token_to_id("<|endoftext|>")
    assert ids.count(end) == 1, "what a message says is no mark"
    assert tokenizer.apply_chat_template("x", chat_template="{{ name }}", name="y") == "y"
    assert ballast.Tokenizer("bytes").chat_template is None
