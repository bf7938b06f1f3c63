"""Converts folders of Hugging Face with llama.cpp's converter.

    python convert.py LLAMA_CPP FOLDERS OUT < models.txt

A line of models.txt: folder, file, and what is special about it. `bf16`: matrices are, otherwise they are f32. `fused`: q, k and v are one
tensor. key=value: a key under the name of the architecture and its value in JSON.
Models without a tokenizer get a list of made-up tokens.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

llama_cpp, folders, results = sys.argv[1:]
sys.path[:0] = [llama_cpp, llama_cpp + "/gguf-py"]
import gguf
import torch
from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
from conversion.base import TextModel


def made_up_tokens(self):
    count = self.hparams["vocab_size"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer = self.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"t{i}" for i in range(3, count)])
    writer.add_token_scores([-float(i) for i in range(count)])
    writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * (count - 3))
    gguf.SpecialVocab(self.dir_model, n_vocab=count).add_to_gguf(writer)


def copy_of(folder):
    """gemma 3 cuts the embedding to what tokenizer.json has."""
    copy = Path(tempfile.mkdtemp())
    for file in folder.iterdir():
        if not file.name.startswith("expected"):
            shutil.copyfile(file, copy / file.name)
    config = json.loads((copy / "config.json").read_text())
    if "n_positions" in config:
        config["n_ctx"] = config["n_positions"]  # which transformers 5 writes no more
        (copy / "config.json").write_text(json.dumps(config))
    tokens = {f"t{i}": i for i in range(config["vocab_size"])}
    (copy / "tokenizer.json").write_text(
        json.dumps({"added_tokens": [], "model": {"type": "BPE", "vocab": tokens, "merges": []}}))
    return copy


def add_keys(writer, keys):
    for key, value in keys.items():
        name = f"{writer.arch}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_float32(name, value)


def convert(source, out, words):
    folder = copy_of(source)
    out.parent.mkdir(parents=True, exist_ok=True)
    cls = get_model_class(get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT))
    inner = [each for each in vars(cls).values() if isinstance(each, type) and issubclass(each, TextModel)]
    for each in inner or [cls]:
        each.set_vocab = made_up_tokens
    kind = gguf.LlamaFileType.MOSTLY_BF16 if "bf16" in words else gguf.LlamaFileType.ALL_F32
    model = cls(folder, kind, out, model_name="made up", fuse_qkv="fused" in words)
    keys = dict(word.split("=", 1) for word in words if "=" in word)
    add_keys(getattr(model, "impl", model).gguf_writer, {key: json.loads(value) for key, value in keys.items()})
    model.write()
    shutil.rmtree(folder)


with torch.inference_mode():
    for line in sys.stdin:
        source, out, *words = line.split()
        convert(Path(folders) / source, Path(results) / out, words)
        print(out, (Path(results) / out).stat().st_size, flush=True)
