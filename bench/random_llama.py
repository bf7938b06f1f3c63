"""Writes a folder with a Llama of random bf16 weights, in the shape of Llama 3.2 1B by default. Needs nothing but Python.

Usage: random_llama.py FOLDER [--small | --smollm2]
  --smollm2   in the shape of SmolLM2 135M, with a tokenizer.json whose tokens are words without meaning
"""
import array, json, math, pathlib, random, struct, sys

SHAPE = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 16384}
SMALL = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096}

SMOLLM2 = {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
           "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192}


def tensors(shape):
    """(name, rows, columns), or (name, count) for a vector of ones."""
    width, hidden = shape["hidden_size"], shape["intermediate_size"]
    keys = width // shape["num_attention_heads"] * shape["num_key_value_heads"]
    yield "model.embed_tokens.weight", shape["vocab_size"], width
    yield "model.norm.weight", width
    for layer in range(shape["num_hidden_layers"]):
        block = f"model.layers.{layer}."
        yield block + "input_layernorm.weight", width
        yield block + "post_attention_layernorm.weight", width
        for name, rows in (("q", width), ("k", keys), ("v", keys), ("o", width)):
            yield f"{block}self_attn.{name}_proj.weight", rows, width
        yield block + "mlp.gate_proj.weight", hidden, width
        yield block + "mlp.up_proj.weight", hidden, width
        yield block + "mlp.down_proj.weight", width, hidden


def bf16(values):
    return array.array("H", [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]).tobytes()


def write(folder, shape):
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(shape, model_type="llama", architectures=["LlamaForCausalLM"], rms_norm_eps=1e-5, rope_theta=500000.0,
                  hidden_act="silu", tie_word_embeddings=True, torch_dtype="bfloat16")
    (folder / "config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for name, *dims in tensors(shape):
        size = 2 * math.prod(dims)
        header[name] = {"dtype": "BF16", "shape": dims, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(1)
    # A prime number of values, so that no two rows are alike.
    normal = [draw.gauss(0, 1) for _ in range(1048573)]
    pools = {}
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, *dims in tensors(shape):
            if len(dims) == 1:
                file.write(bf16([1.0]) * dims[0])
                continue
            columns = dims[1]
            if columns not in pools:
                pools[columns] = bf16([value / math.sqrt(columns) for value in normal])
            left = 2 * math.prod(dims)
            while left > 0:
                file.write(pools[columns][:left])
                left -= min(left, len(pools[columns]))


def write_words(folder, count):
    vocab = {f"w{i}": i for i in range(count)}
    words = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
             "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}}
    (folder / "tokenizer.json").write_text(json.dumps(words))


if __name__ == "__main__":
    folder, options = pathlib.Path(sys.argv[1]), sys.argv[2:]
    shape = SMALL if "--small" in options else SMOLLM2 if "--smollm2" in options else SHAPE
    write(folder, shape)
    if shape is SMOLLM2:
        write_words(folder, shape["vocab_size"])
