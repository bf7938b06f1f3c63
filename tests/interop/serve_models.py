"""Small models for the clients of `ballast serve`: one that thinks and calls tools whatever it is asked, and one that embeds."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RECORDED = Path(__file__).resolve().parent.parent / "data" / "hf"

TOKENS = 128  # of the vocabulary, and as many numbers for each of them
SPECIAL = ("<unk>", "</s>", "<|asked|>", "<|told|>", "<think>")
UNKNOWN, END, ASKED, TOLD, THINKS = range(len(SPECIAL))
# What it writes after a question, after the result of a tool, and where it may think; the clients expect these texts.
SCRIPTS = {
    ASKED: ("I ask. ", "<tool_call>", '{"name": "weather", ', '"arguments": {"city": "Paris"}}', "</tool_call>",
            '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'),
    TOLD: ("It ", "rains ", "there."),
    THINKS: ("Rain?", "</think>", "Yes, ", "rain."),
}
TEMPLATE = """\
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
{%- for message in messages %}{{ message.role }}: {{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}
{% endfor %}
{%- if enable_thinking %}<think>{# up to </think> #}{% elif messages[-1].role == "tool" %}<|told|>{% else %}<|asked|>{% endif %}"""
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def write_json(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")


def added_tokens(texts, first=0):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": first + i, "content": text, **flags} for i, text in enumerate(texts)]


# ---------------------------------------------------------------- calls tools

def caller_vocabulary():
    """Single characters, so that any JSON can be written, and the pieces of the scripts. As byte-level tokenizers spell it."""
    pieces = [piece.replace(" ", "\u0120") for script in SCRIPTS.values() for piece in script]
    texts = [*SPECIAL, "\u0120", "\u010a", *map(chr, range(ord("!"), ord("~") + 1)), *pieces]
    fill = [f"z{chr(ord('A') + i)}" for i in range(TOKENS - len(texts))]
    return {text: i for i, text in enumerate(texts + fill)}


def caller_head(vocabulary):
    """Logits of the next token by the last one: those of the scripts are certain. Under a constraint that forbids them, the
    rest is drawn at random, and the ends of texts and lists are likely, so that answers stay short."""
    logits = np.random.default_rng(7).standard_normal((TOKENS, TOKENS)).astype(np.float32)
    for mark in '"}]':
        logits[vocabulary[mark]] += 3
    for begin, script in SCRIPTS.items():
        ids = [begin, *(vocabulary[piece.replace(" ", "\u0120")] for piece in script), END]
        logits[ids[1:], ids[:-1]] = 40
    return logits / np.sqrt(np.float32(TOKENS))  # the norm makes this of the one number of a token


def write_caller(folder):
    """A decoder whose only layer does nothing."""
    folder.mkdir(parents=True)
    vocabulary = caller_vocabulary()
    square, ones = np.zeros((TOKENS, TOKENS), np.float32), np.ones(TOKENS, np.float32)
    projections = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                   "mlp.up_proj", "mlp.down_proj")
    norms = ("model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm", "model.norm")
    save_file({"model.embed_tokens.weight": np.eye(TOKENS, dtype=np.float32), "lm_head.weight": caller_head(vocabulary),
               **{f"model.layers.0.{name}.weight": square.copy() for name in projections},
               **{f"{name}.weight": ones.copy() for name in norms}}, folder / "model.safetensors", {"format": "pt"})
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": TOKENS, "hidden_size": TOKENS,
        "intermediate_size": TOKENS, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
        "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "eos_token_id": END, "torch_dtype": "float32"})
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "added_tokens": added_tokens(SPECIAL), "normalizer": None, "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None, "decoder": BYTE_LEVEL, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}})
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


# ---------------------------------------------------------------- embeds

def write_embedder(folder):
    """The recorded encoder of BERT's kind, with a tokenizer of letters."""
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copyfile(RECORDED / "bert" / name, folder / name)
    letters = [chr(ord("a") + i) for i in range(26)]
    texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "added_tokens": added_tokens(texts[:4]),
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {text: i for i, text in enumerate(texts)}}})
    write_json(folder / "modules.json", [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))])
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 64, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True})
    return folder
