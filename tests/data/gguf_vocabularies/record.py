"""Records what llama.cpp's converter makes of tokenizers.

    python record.py LLAMA_CPP TESTS_DATA

Needs transformers, sentencepiece and the converter of llama-cpp-python 0.3.36, and no PyTorch. A case of cases.json is a tokenizer of
tests/data, what stands beside it, and the architecture; the hash by which the converter knows pre-tokenizers is of real models, so the
name is given. What comes out is <name>.json: the keys in order.
"""
import importlib
import json
import shutil
import sys
import tempfile
import types
from pathlib import Path
from unittest.mock import MagicMock

llama_cpp, data = sys.argv[1:]
sys.path[:0] = [llama_cpp, llama_cpp + "/gguf-py"]
import transformers  # noqa: F401  before the stand-in for torch


class Anything(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


torch = Anything("torch")
torch.Tensor = type("Tensor", (), {})
sys.modules["torch"] = torch

KEYS = {"tokenizer_model": "model", "tokenizer_pre": "pre", "token_list": "tokens", "token_scores": "scores", "token_types": "token_type",
        "token_merges": "merges", "unk_token_id": "unknown_token_id", "sep_token_id": "seperator_token_id",
        "pad_token_id": "padding_token_id", "add_space_prefix": "add_space_prefix", "normalizer_lowercase": "normalizer.lowercase",
        "normalizer_strip_accents": "normalizer.strip_accents"}


class Writer:
    def __init__(self):
        self.keys = {}

    def __getattr__(self, name):
        if not name.startswith("add_"):
            raise AttributeError(name)
        if name == "add_cls_token_id":
            raise AttributeError(name)
        name = name[4:]
        key = "tokenizer.chat_template" if name == "chat_template" else "tokenizer.ggml." + KEYS.get(name, name)

        def add(value):
            if isinstance(value, list):
                value = [item.decode() if isinstance(item, bytes) else int(item) if key.endswith("token_type") else item for item in value]
            self.keys[key] = value
        return add


def record(case):
    folder = Path(tempfile.mkdtemp())
    name = "tokenizer.model" if case["tokenizer"].endswith(".model") else "tokenizer.json"
    shutil.copyfile(Path(data) / case["tokenizer"], folder / name)
    (folder / "config.json").write_text(json.dumps(case["config"]))
    if "tokenizer_config" in case:
        (folder / "tokenizer_config.json").write_text(json.dumps(case["tokenizer_config"]))
    module, cls = {"llama": ("llama", "LlamaModel"), "qwen2": ("qwen", "Qwen2Model"), "gemma2": ("gemma", "Gemma2Model"),
                   "bert": ("bert", "BertModel")}[case["architecture"]]
    cls = getattr(importlib.import_module("conversion." + module), cls)
    model = object.__new__(cls)
    model.dir_model, model.hparams, model.is_mistral_format, model.origin_hf_arch = folder, case["config"], False, None
    model.gguf_writer = Writer()
    model.get_vocab_base_pre = lambda tokenizer: case["pre"]
    cls.set_vocab(model)
    shutil.rmtree(folder)
    return model.gguf_writer.keys


here = Path(data) / "gguf_vocabularies"
for case in json.loads((here / "cases.json").read_text()):
    (here / (case["name"] + ".json")).write_text(json.dumps(record(case), ensure_ascii=False, separators=(",", ":")) + "\n")
    print(case["name"])
