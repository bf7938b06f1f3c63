"""The GGUF files of bench/random_gguf.py as models of transformers: the same weights in PyTorch."""

FUSED_GELU = "gelu_pytorch_tanh"  # GPT-2's own "gelu_new" is the same function in several passes


def load(path, dtype):
    """An eval() model in this type, whose head is its embedding."""
    import gguf
    import torch
    import transformers
    reader = gguf.GGUFReader(path)
    field = {name.split(".", 1)[1]: f.contents() for name, f in reader.fields.items() if name.startswith(("gpt2.", "llama."))}
    tensors = {t.name: t for t in reader.tensors}

    def values(name):
        tensor = tensors[name]
        found = gguf.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(found.reshape([int(n) for n in reversed(tensor.shape)]).copy()).to(dtype)

    make = llama if "attention.head_count_kv" in field else gpt2
    vocabulary = int(tensors["token_embd.weight"].shape[1])
    with torch.device("meta"):
        model, names = make(transformers, field, vocabulary)
    state = {theirs: change(values(ours)) for theirs, (ours, change) in names.items()}
    model.load_state_dict(state, strict=False, assign=True)
    model.tie_weights()
    if make is llama:  # its table of frequencies is computed, which the meta device does not do
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    left = [name for name, tensor in (*model.named_parameters(), *model.named_buffers()) if tensor.is_meta]
    if left:
        raise RuntimeError(f"{path} has nothing for {left}")
    return model.eval()


def same(tensor):
    return tensor


def transposed(tensor):
    return tensor.T.contiguous()


def gpt2(transformers, field, vocabulary):
    config = transformers.GPT2Config(vocab_size=vocabulary, n_positions=field["context_length"],
                                     n_embd=field["embedding_length"], n_layer=field["block_count"],
                                     n_head=field["attention.head_count"], activation_function=FUSED_GELU)
    names = {"transformer.wte.weight": ("token_embd.weight", same), "transformer.wpe.weight": ("position_embd.weight", same)}
    for part in ("weight", "bias"):
        names[f"transformer.ln_f.{part}"] = (f"output_norm.{part}", same)
        for layer in range(config.n_layer):
            for theirs, ours in (("ln_1", "attn_norm"), ("ln_2", "ffn_norm"), ("attn.c_attn", "attn_qkv"),
                                 ("attn.c_proj", "attn_output"), ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down")):
                change = transposed if part == "weight" and not theirs.startswith("ln") else same
                names[f"transformer.h.{layer}.{theirs}.{part}"] = (f"blk.{layer}.{ours}.{part}", change)
    return transformers.GPT2LMHeadModel(config), names


def llama(transformers, field, vocabulary):
    heads, key_heads = field["attention.head_count"], field["attention.head_count_kv"]
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=field["embedding_length"], intermediate_size=field["feed_forward_length"],
        num_hidden_layers=field["block_count"], num_attention_heads=heads, num_key_value_heads=key_heads,
        max_position_embeddings=field["context_length"], rms_norm_eps=field["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": field["rope.freq_base"]}, tie_word_embeddings=True)

    def halves(count):
        """GGUF has the two numbers of a rotation side by side, transformers half a head apart."""
        return lambda t: t.view(count, -1, 2, t.shape[1]).transpose(1, 2).reshape(t.shape).contiguous()

    names = {"model.embed_tokens.weight": ("token_embd.weight", same), "model.norm.weight": ("output_norm.weight", same)}
    for layer in range(config.num_hidden_layers):
        for theirs, ours, change in (
                ("input_layernorm", "attn_norm", same), ("post_attention_layernorm", "ffn_norm", same),
                ("self_attn.q_proj", "attn_q", halves(heads)), ("self_attn.k_proj", "attn_k", halves(key_heads)),
                ("self_attn.v_proj", "attn_v", same), ("self_attn.o_proj", "attn_output", same),
                ("mlp.gate_proj", "ffn_gate", same), ("mlp.up_proj", "ffn_up", same), ("mlp.down_proj", "ffn_down", same)):
            names[f"model.layers.{layer}.{theirs}.weight"] = (f"blk.{layer}.{ours}.weight", change)
    return transformers.LlamaForCausalLM(config), names
