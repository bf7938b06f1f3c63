"""Tiny models over the switches that config.json files of each family have: what torch_families.py compares.

A case is a config.json as somebody might have written it, in the old or the new spelling, and what must come of it: the
numbers of transformers, or an error that names what we do not do.
"""

import random
from dataclasses import dataclass, field

SHORT, LONG = 5, 40  # tokens of the two prompts: WINDOW and ORIGINAL are between
WINDOW, ORIGINAL, CONTEXT = 9, 16, 64
MIXED = 6  # cases of a family that throw all its switches at random
TINY = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": CONTEXT}


# Keys of transformers' classes that say nothing about what a forward pass computes; every other one is in some case.
NEUTRAL = {"initializer_range", "pad_token_id", "bos_token_id", "eos_token_id", "use_cache", "attention_dropout", "resid_pdrop",
           "embd_pdrop", "attn_pdrop", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
           "pretraining_tp", "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "add_cross_attention",
           "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout"}


@dataclass
class Case:
    family: str
    name: str
    config: dict
    refused: tuple = ()  # words of the error; empty: the same numbers
    dtype: str = "float32"  # of the stored weights
    shards: bool = False
    rename: tuple = ()  # (beginning of a tensor's name, what it becomes), as older files have it
    files: dict = field(default_factory=dict)  # beside config.json
    prompt: int = 12  # tokens before the greedy continuation
    cached: bool = True  # whether transformers keeps a cache meanwhile, as we do
    pooling: str = "mean"  # of an encoder: how states become a vector,
    unit: bool = False  # whether it has length 1,
    max_length: int = 0  # and how many tokens of a text it reads; 0: as many as there are positions


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


# ---------------------------------------------------------------- rope

HALF = 6  # rotary pairs of TINY's heads of 12
SHORT_FACTORS = [1.0, 1.05, 1.1, 1.2, 1.35, 1.5]
LONG_FACTORS = [1.2, 1.5, 2.0, 2.7, 3.5, 4.0]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": ORIGINAL}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT_FACTORS, "long_factor": LONG_FACTORS,
            "original_max_position_embeddings": ORIGINAL}

ROPES = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "llama3": LLAMA3,
    "llama3_wide": {**LLAMA3, "low_freq_factor": 0.5, "high_freq_factor": 2.5, "factor": 32.0},
    "yarn": YARN,
    "yarn_whole": without(YARN, "original_max_position_embeddings"),
    "yarn_betas": {**YARN, "beta_fast": 4.0, "beta_slow": 0.5},
    "yarn_no_truncate": {**YARN, "truncate": False},
    "yarn_attention_factor": {**YARN, "attention_factor": 1.3},
    "yarn_mscale": {**YARN, "mscale": 0.707, "mscale_all_dim": 1.2},
    "yarn_mscale_alone": {**YARN, "mscale": 0.707},
    "yarn_mscale_0": {**YARN, "mscale": 1.0, "mscale_all_dim": 0},
    "yarn_factor_null": {**YARN, "factor": None},
    "yarn_narrow": {**YARN, "beta_fast": 1.0, "beta_slow": 1.0},
    "yarn_shrinks": {**YARN, "factor": 0.5},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "default": {"rope_type": "default"},
    "linear_with_attention_factor": {"rope_type": "linear", "factor": 2.0, "attention_factor": 2.0},
}


def old_rope(theta, scaling):
    """transformers 4: theta at the top, "type" for the kind."""
    inner = {("type" if key == "rope_type" else key): value for key, value in scaling.items()}
    return ({} if theta is None else {"rope_theta": theta}) | {"rope_scaling": inner or None}


def new_rope(theta, scaling):
    return {"rope_parameters": {"rope_type": "default"} | scaling | ({} if theta is None else {"rope_theta": theta})}


def rope_cases(family, base):
    for name, scaling in ROPES.items():
        context = {"max_position_embeddings": ORIGINAL + 8} if scaling["rope_type"] == "dynamic" else {}
        yield Case(family, f"rope_{name}_old", base | context | old_rope(5e5, scaling))
        yield Case(family, f"rope_{name}_new", base | context | new_rope(5e4, scaling))
    dynamic = base | {"max_position_embeddings": ORIGINAL + 8} | old_rope(1e4, ROPES["dynamic"])
    for length in (ORIGINAL + 2, ORIGINAL + 8, ORIGINAL + 14):
        yield Case(family, f"rope_dynamic_from_{length}", dynamic, prompt=length)


def few_rope_cases(family, base):
    for name in ("linear", "llama3", "yarn", "dynamic"):
        context = {"max_position_embeddings": ORIGINAL + 8} if name == "dynamic" else {}
        yield Case(family, f"rope_{name}_old", base | context | old_rope(5e5, ROPES[name]))
        yield Case(family, f"rope_{name}_new", base | context | new_rope(None, ROPES[name]))


# ---------------------------------------------------------------- what many families share

ACTIVATIONS = ("silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python", "gelu_python_tanh",
               "gelu_accurate", "relu")
OTHER_ACTIVATIONS = ("quick_gelu", "relu2", "tanh", "sigmoid", "mish", "gelu_10", "linear")


def head_cases(family, base):
    for heads in (1, 2, 4):
        yield Case(family, f"kv_heads_{heads}", base | {"num_key_value_heads": heads})
    for size in (8, 20):
        yield Case(family, f"head_dim_{size}", base | {"head_dim": size})
    for tied in (False, True):
        yield Case(family, f"tied_{tied}".lower(), base | {"tie_word_embeddings": tied})
    yield Case(family, "eps", base | {"rms_norm_eps": 1e-2})
    for dtype in ("float16", "bfloat16"):
        yield Case(family, dtype, base, dtype=dtype)


def act_cases(family, base, key="hidden_act", activations=ACTIVATIONS):
    for name in activations:
        yield Case(family, f"act_{name}", base | {key: name})
    for name in OTHER_ACTIVATIONS:
        yield Case(family, f"act_{name}", base | {key: name}, refused=(key, name))


def mixed_cases(family, base, switches, seed):
    """Everything at once: each switch one of its values."""
    rng = random.Random(f"{family} {seed}")
    for i in range(MIXED):
        config = dict(base)
        for key, values in switches.items():
            value = rng.choice(values)
            config |= value if isinstance(value, dict) and key.startswith("*") else {key: value}
        yield Case(family, f"mixed_{i}", config, dtype=rng.choice(("float32", "float32", "bfloat16", "float16")),
                   shards=rng.random() < 0.3)


ANY_ROPE = [old_rope(1e4, {}), old_rope(5e5, ROPES["linear"]), old_rope(5e5, LLAMA3), old_rope(1e4, ROPES["yarn_mscale"]),
            new_rope(1e5, {}), new_rope(3e4, LLAMA3), new_rope(1e6, YARN), new_rope(None, ROPES["yarn_no_truncate"])]
COMMON = {"hidden_size": [32, 48, 96], "num_hidden_layers": [2, 3, 5], "num_key_value_heads": [1, 2, 4],
          "head_dim": [8, 12, 16], "tie_word_embeddings": [True, False], "hidden_act": ["silu", "gelu", "relu"],
          "rms_norm_eps": [1e-6, 1e-5, 1e-3], "*rope": ANY_ROPE, "vocab_size": [64, 130, 300]}
BIASES = {"attention_bias": [True, False]}
WINDOWED = {"sliding_window": [None, 4, WINDOW, 100]}


# ---------------------------------------------------------------- families

def llama():
    base = {"model_type": "llama"} | TINY
    yield Case("llama", "plain", base)
    yield Case("llama", "kv_heads_unsaid", without(base, "num_key_value_heads"))
    yield Case("llama", "kv_heads_null", base | {"num_key_value_heads": None})
    yield Case("llama", "theta_unsaid_rope_scaling_empty", base | {"rope_scaling": {}})
    yield Case("llama", "both_ropes", base | old_rope(5e4, ROPES["linear"]) | new_rope(1e6, LLAMA3))
    yield Case("llama", "new_rope_and_top_theta", base | {"rope_theta": 77.0, "rope_parameters": {"rope_type": "default"}})
    yield Case("llama", "new_rope_beats_top_theta", base | {"rope_theta": 77.0} | new_rope(5e5, {}))
    yield Case("llama", "original_context_at_the_top",
               base | {"original_max_position_embeddings": 24} | old_rope(1e4, LLAMA3))
    for attention in (False, True):
        for mlp in (False, True):
            yield Case("llama", f"bias_{attention}_{mlp}".lower(), base | {"attention_bias": attention, "mlp_bias": mlp})
    # transformers' cache, not its model, would obey.
    yield Case("llama", "window_means_nothing", base | {"sliding_window": 4, "use_sliding_window": True}, cached=False)
    yield Case("llama", "layer_types", base | {"sliding_window": 4, "layer_types": ["sliding_attention"] * 3},
               refused=("layer_types", "sliding_attention"))
    yield Case("llama", "layer_types_full", base | {"layer_types": ["full_attention"] * 3})
    yield Case("llama", "neutral_keys", base | {
        "pretraining_tp": 2, "attention_dropout": 0.1, "use_cache": False, "initializer_range": 0.5, "auto_map": {},
        "_name_or_path": "x", "torch_dtype": "bfloat16", "transformers_version": "4.40.0", "unsloth_fixed": True})
    yield Case("llama", "sharded", base | {"num_hidden_layers": 5}, shards=True)
    yield Case("llama", "lm_head_stands_in", base | {"tie_word_embeddings": True}, rename=(("model.embed_tokens", "lm_head"),))
    for name, part in (("half", 0.5), ("whole", 1.0)):
        refused = () if part == 1 else ("partial_rotary_factor", "0.5")
        yield Case("llama", f"partial_rotary_{name}", base | {"partial_rotary_factor": part}, refused=refused)
    # transformers throws a cache away for phi3 alone, where the table changes; without one there is no difference.
    yield Case("llama", "longrope", base | new_rope(1e4, LONGROPE), cached=False)
    yield Case("llama", "longrope_old", base | old_rope(1e4, LONGROPE | {"factor": 4.0}), cached=False)
    yield Case("llama", "proportional", base | new_rope(1e4, {"rope_type": "proportional"}), refused=("proportional",))
    yield Case("llama", "both_ways", base | {"is_causal": False}, refused=("is_causal",))
    yield Case("llama", "layers_of_their_own", base | {"per_layer_config": {"1": {"rms_norm_eps": 0.5}}},
               refused=("per_layer_config",))
    for method in ("fp8", "gptq", "bitsandbytes"):
        yield Case("llama", f"quantized_{method}", base | {"quantization_config": {"quant_method": method}},
                   refused=("quantization_config", method))
    yield from head_cases("llama", base)
    yield from act_cases("llama", base)
    yield from rope_cases("llama", base)
    yield from mixed_cases("llama", base, COMMON | BIASES | {"mlp_bias": [True, False]}, 1)


def mistral():
    base = {"model_type": "mistral", "sliding_window": WINDOW} | TINY
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    yield Case("mistral", "window", base)
    yield Case("mistral", "window_null", base | {"sliding_window": None})
    yield Case("mistral", "window_unsaid", without(base, "sliding_window"))
    yield Case("mistral", "window_1", base | {"sliding_window": 1}, cached=False)
    yield Case("mistral", "layer_types", base | {"layer_types": kinds, "head_dim": 12})
    yield Case("mistral", "attention_bias_means_nothing", base | {"attention_bias": True, "mlp_bias": True})
    yield Case("mistral", "kv_heads_unsaid", without(base, "num_key_value_heads") | {"num_attention_heads": 8})
    yield from head_cases("mistral", base)
    yield from few_rope_cases("mistral", base)
    yield from mixed_cases("mistral", base, COMMON | WINDOWED, 1)

    base = base | {"model_type": "ministral", "head_dim": 12}
    yield Case("ministral", "layer_types", base | {"layer_types": kinds})
    yield Case("ministral", "layer_types_unsaid", base)
    yield from few_rope_cases("ministral", base | {"layer_types": kinds})
    yield from mixed_cases("ministral", base | {"layer_types": kinds}, without(COMMON, "num_hidden_layers"), 1)


def ministral3():
    base = {"model_type": "ministral3", "head_dim": 12} | TINY
    rope = {"rope_parameters": YARN | {"rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32.0,
                                       "beta_slow": 1.0, "llama_4_scaling_beta": 0.1}}
    yield Case("ministral3", "yarn", base | rope)
    yield Case("ministral3", "hot", base | {"rope_parameters": rope["rope_parameters"] | {"llama_4_scaling_beta": 0.7}})
    yield Case("ministral3", "rope_unsaid", base)
    yield Case("ministral3", "rope_in_the_old_spelling",
               base | {"rope_theta": 3e4, "rope_scaling": without(rope["rope_parameters"], "rope_theta")})
    yield Case("ministral3", "default_rope", base | {"rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 8}})
    yield Case("ministral3", "mscales", base | {"rope_parameters": rope["rope_parameters"] | {"mscale": 0.5}})
    yield Case("ministral3", "window", base | rope | {"sliding_window": WINDOW})
    yield Case("ministral3", "layer_types", base | rope | {"sliding_window": WINDOW, "layer_types": ["full_attention"] * 3},
               refused=("layer_types", "full_attention"))
    yield Case("ministral3", "head_dim_unsaid", without(base, "head_dim") | rope)
    yield from head_cases("ministral3", base | rope)
    yield from mixed_cases("ministral3", base | rope, without(COMMON, "*rope") | WINDOWED, 1)


def smollm3():
    base = {"model_type": "smollm3", "num_hidden_layers": 5, "pad_token_id": 0} | without(TINY, "num_hidden_layers")
    yield Case("smollm3", "plain", base)
    yield Case("smollm3", "interval_2", base | {"no_rope_layer_interval": 2})
    yield Case("smollm3", "interval_1", base | {"no_rope_layer_interval": 1})
    yield Case("smollm3", "no_rope_layers", base | {"no_rope_layers": [0, 1, 1, 0, 1]})
    yield Case("smollm3", "no_rope_layers_longer", base | {"no_rope_layers": [0, 1, 1, 0, 1, 0, 0]})
    yield Case("smollm3", "no_rope_layers_null", base | {"no_rope_layers": None, "no_rope_layer_interval": 3})
    yield Case("smollm3", "window", base | {"use_sliding_window": True, "sliding_window": WINDOW})
    yield Case("smollm3", "window_unused", base | {"use_sliding_window": False, "sliding_window": WINDOW})
    yield Case("smollm3", "window_null", base | {"use_sliding_window": True, "sliding_window": None})
    kinds = ["full_attention", "sliding_attention"] * 2 + ["full_attention"]
    yield Case("smollm3", "layer_types", base | {"layer_types": kinds, "sliding_window": WINDOW, "use_sliding_window": True})
    yield Case("smollm3", "layer_types_window_unused", base | {"layer_types": kinds, "sliding_window": WINDOW},
               refused=("layer_types", "use_sliding_window"))
    yield Case("smollm3", "bias", base | {"attention_bias": True, "mlp_bias": True})
    yield Case("smollm3", "theta_unsaid_yarn", base | new_rope(None, YARN))
    yield from head_cases("smollm3", base)
    yield from few_rope_cases("smollm3", base)
    yield from mixed_cases("smollm3", base, COMMON | BIASES | WINDOWED | {
        "use_sliding_window": [True, False], "no_rope_layer_interval": [1, 2, 4]}, 1)


def qwen():
    base = {"model_type": "qwen2"} | TINY
    windows = {"use_sliding_window": [True, False], "max_window_layers": [0, 1, 2, 28]}
    for family, more in (("qwen2", {}), ("qwen3", {"head_dim": 12})):
        base = {"model_type": family} | TINY | more
        kinds = ["full_attention", "sliding_attention", "full_attention"]
        yield Case(family, "plain", base)
        yield Case(family, "window_unused", base | {"sliding_window": 4, "max_window_layers": 1})
        yield Case(family, "window", base | {"sliding_window": WINDOW, "max_window_layers": 1, "use_sliding_window": True})
        yield Case(family, "window_null", base | {"sliding_window": None, "max_window_layers": 0, "use_sliding_window": True})
        yield Case(family, "window_far", base | {"sliding_window": 4, "use_sliding_window": True})
        yield Case(family, "layer_types", base | {"sliding_window": WINDOW, "use_sliding_window": True, "layer_types": kinds})
        yield Case(family, "layer_types_full", base | {
            "sliding_window": 4, "use_sliding_window": True, "max_window_layers": 0, "layer_types": ["full_attention"] * 3})
        yield Case(family, "attention_bias", base | {"attention_bias": True})
        yield Case(family, "mlp_bias_means_nothing", base | {"mlp_bias": True})
        yield Case(family, "head_dim_unsaid", without(base, "head_dim"))
        yield Case(family, "kv_heads_null", base | {"num_key_value_heads": None})
        yield from head_cases(family, base)
        yield from act_cases(family, base, activations=("silu", "gelu"))
        yield from few_rope_cases(family, base)
        yield from mixed_cases(family, base, COMMON | WINDOWED | windows | (BIASES if family == "qwen3" else {}), 1)


def moe():
    sizes = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    switches = {"num_experts": [4, 7], "num_experts_per_tok": [1, 2, 4], "moe_intermediate_size": [16, 40],
                "norm_topk_prob": [True, False], "decoder_sparse_step": [1, 2], "mlp_only_layers": [[], [0], [1]],
                "use_sliding_window": [True, False]}
    for family, more in (("qwen3_moe", {}), ("qwen2_moe", {"shared_expert_intermediate_size": 56})):
        base = {"model_type": family} | TINY | sizes | more
        yield Case(family, "plain", base)
        yield Case(family, "norm_topk_prob", base | {"norm_topk_prob": True})
        yield Case(family, "not_normalised", base | {"norm_topk_prob": False})
        yield Case(family, "one_expert", base | {"num_experts_per_tok": 1, "norm_topk_prob": True})
        yield Case(family, "all_experts", base | {"num_experts_per_tok": 6})
        yield Case(family, "sparse_step", base | {"decoder_sparse_step": 2, "num_hidden_layers": 4})
        yield Case(family, "mlp_only_layers", base | {"mlp_only_layers": [0, 2]})
        yield Case(family, "dense", base | {"mlp_only_layers": [0, 1, 2]})
        yield Case(family, "no_experts", base | {"num_experts": 0})
        yield Case(family, "aux_loss", base | {"output_router_logits": True, "router_aux_loss_coef": 0.5})
        yield Case(family, "window", base | {"sliding_window": WINDOW, "use_sliding_window": True})
        yield Case(family, "window_unused", base | {"sliding_window": WINDOW, "use_sliding_window": False})
        yield Case(family, "act_gelu", base | {"hidden_act": "gelu"})
        yield from head_cases(family, base)
        yield from few_rope_cases(family, base)
        yield from mixed_cases(family, base, COMMON | WINDOWED | switches | (
            BIASES if family == "qwen3_moe" else {"qkv_bias": [True, False], "max_window_layers": [0, 2, 28],
                                                  "shared_expert_intermediate_size": [16, 64]}), 2)
    base = {"model_type": "qwen3_moe"} | TINY | without(sizes, "num_experts")
    yield Case("qwen3_moe", "num_local_experts", base | {"num_local_experts": 5})
    yield Case("qwen3_moe", "attention_bias", base | {"num_experts": 5, "attention_bias": True})
    base = {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 56} | TINY | sizes
    yield Case("qwen2_moe", "no_qkv_bias", base | {"qkv_bias": False})
    kinds = ["full_attention", "full_attention", "sliding_attention"]
    listed = {"sliding_window": WINDOW, "use_sliding_window": True, "layer_types": kinds}
    yield Case("qwen2_moe", "layer_types", base | listed)
    yield Case("qwen3_moe", "layer_types", {"model_type": "qwen3_moe"} | TINY | sizes | listed, refused=("layer_types",))
    yield Case("qwen2_moe", "window_below_2", base | {"sliding_window": WINDOW, "use_sliding_window": True,
                                                      "max_window_layers": 2})

    base = {"model_type": "mixtral", "num_local_experts": 5, "num_experts_per_tok": 2} | TINY
    yield Case("mixtral", "plain", base)
    yield Case("mixtral", "window", base | {"sliding_window": WINDOW})
    yield Case("mixtral", "one_expert", base | {"num_experts_per_tok": 1})
    yield Case("mixtral", "used_unsaid", without(base, "num_experts_per_tok"))
    yield Case("mixtral", "count_unsaid", without(base, "num_local_experts"))
    yield Case("mixtral", "jitter_is_for_training", base | {"router_jitter_noise": 0.5})
    yield Case("mixtral", "theta_unsaid_linear", base | new_rope(None, ROPES["linear"]))
    yield from head_cases("mixtral", base)
    yield from few_rope_cases("mixtral", base | {"head_dim": 12})
    yield from mixed_cases("mixtral", base, COMMON | WINDOWED | {
        "num_local_experts": [2, 6], "num_experts_per_tok": [1, 2]}, 3)


def gemma2():
    base = {"model_type": "gemma2", "head_dim": 12, "sliding_window": WINDOW, "query_pre_attn_scalar": 12,
            "num_hidden_layers": 4} | without(TINY, "num_hidden_layers")
    yield Case("gemma2", "plain", base)
    yield Case("gemma2", "query_scalar_unsaid", without(base, "query_pre_attn_scalar"))
    yield Case("gemma2", "query_scalar", base | {"query_pre_attn_scalar": 37})
    yield Case("gemma2", "no_caps", base | {"attn_logit_softcapping": None, "final_logit_softcapping": None})
    yield Case("gemma2", "tight_caps", base | {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 6.0})
    yield Case("gemma2", "window_unsaid", without(base, "sliding_window"))
    yield Case("gemma2", "layer_types", base | {"layer_types": ["full_attention"] * 3 + ["sliding_attention"]})
    yield Case("gemma2", "hidden_act_loses", base | {"hidden_act": "silu"})
    yield Case("gemma2", "attention_bias", base | {"attention_bias": True})
    yield Case("gemma2", "both_ways", base | {"use_bidirectional_attention": True}, refused=("use_bidirectional_attention",))
    yield from head_cases("gemma2", base)
    yield from act_cases("gemma2", base, "hidden_activation", ("gelu", "gelu_pytorch_tanh", "silu"))
    yield from few_rope_cases("gemma2", base)
    yield from mixed_cases("gemma2", base, without(COMMON, "hidden_act") | BIASES | {
        "sliding_window": [4, WINDOW, 100], "query_pre_attn_scalar": [8, 24, 144],
        "attn_logit_softcapping": [None, 2.0, 50.0], "final_logit_softcapping": [None, 5.0, 30.0],
        "hidden_activation": ["gelu_pytorch_tanh", "gelu"]}, 1)


GEMMA3 = {"model_type": "gemma3_text", "head_dim": 12, "sliding_window": WINDOW, "query_pre_attn_scalar": 12,
          "sliding_window_pattern": 3, "num_hidden_layers": 4} | without(TINY, "num_hidden_layers")
SIGHT = {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "image_size": 28, "patch_size": 14}


def gemma3():
    base = GEMMA3
    yield Case("gemma3", "plain", base)
    yield Case("gemma3", "pattern_unsaid", without(base, "sliding_window_pattern") | {"num_hidden_layers": 7})
    yield Case("gemma3", "pattern_as_saved",
               without(base, "sliding_window_pattern") | {"_sliding_window_pattern": 2, "num_hidden_layers": 7})
    yield Case("gemma3", "layer_types_beat_the_pattern",
               base | {"layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]})
    yield Case("gemma3", "old_thetas", base | {"rope_theta": 5e5, "rope_local_base_freq": 300.0})
    yield Case("gemma3", "old_local_theta_alone", base | {"rope_local_base_freq": 300.0})
    yield Case("gemma3", "old_linear", base | {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})
    yield Case("gemma3", "old_yarn", base | {"rope_theta": 5e5, "rope_scaling": without(YARN, "truncate")})
    kinds = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
             "sliding_attention": {"rope_type": "default", "rope_theta": 700.0}}
    yield Case("gemma3", "new_ropes", base | {"rope_parameters": kinds})
    yield Case("gemma3", "new_ropes_scaled_both", base | {"rope_parameters": kinds | {
        "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 700.0}}})
    yield Case("gemma3", "new_ropes_without_thetas", base | {"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"rope_type": "default"}}})
    for kind, other in (("full_attention", "sliding_attention"), ("sliding_attention", "full_attention")):
        for word in ("llama3", "yarn"):
            yield Case("gemma3", f"{kind}_{word}", base | {"rope_parameters": {
                kind: ROPES[word] | {"rope_theta": 3e4}, other: {"rope_type": "default", "rope_theta": 500.0}}})
    yield Case("gemma3", "new_ropes_global_alone", base | {"rope_parameters": {"full_attention": kinds["full_attention"]}})
    yield Case("gemma3", "new_ropes_and_top", base | {
        "rope_theta": 40.0, "rope_local_base_freq": 50.0, "rope_parameters": {
            "full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}})
    yield Case("gemma3", "both_ropes", base | {"rope_parameters": kinds, "rope_scaling": {"factor": 3.0, "rope_type": "linear"}},
               refused=("rope_scaling", "rope_parameters"))
    yield Case("gemma3", "flat_new_rope", base | new_rope(5e5, ROPES["linear"]), refused=("rope_parameters", "full_attention"))
    yield Case("gemma3", "query_scalar", base | {"query_pre_attn_scalar": 37})
    yield Case("gemma3", "query_scalar_unsaid", without(base, "query_pre_attn_scalar"))
    yield Case("gemma3", "final_cap", base | {"final_logit_softcapping": 3.0})
    yield Case("gemma3", "attention_cap", base | {"attn_logit_softcapping": 1.0})
    yield Case("gemma3", "attention_bias", base | {"attention_bias": True})
    yield Case("gemma3", "both_ways", base | {"use_bidirectional_attention": True}, refused=("use_bidirectional_attention",))
    yield from head_cases("gemma3", base)
    yield from act_cases("gemma3", base, "hidden_activation", ("gelu", "gelu_pytorch_tanh", "silu"))
    yield from mixed_cases("gemma3", base, without(COMMON, "hidden_act", "*rope") | BIASES | {
        "sliding_window": [4, WINDOW, 100], "query_pre_attn_scalar": [8, 24, 144], "sliding_window_pattern": [1, 2, 6],
        "final_logit_softcapping": [None, 5.0], "rope_theta": [1e4, 1e6], "rope_local_base_freq": [100.0, 1e4]}, 1)


def wrappers():
    old = (("model.language_model.", "language_model.model."), ("lm_head.", "language_model.lm_head."),
           ("model.vision_tower.", "vision_tower."), ("model.multi_modal_projector.", "multi_modal_projector."))
    gemma = {"model_type": "gemma3", "text_config": GEMMA3, "vision_config": SIGHT, "mm_tokens_per_image": 4,
             "image_token_index": 95, "boi_token_index": 94, "eoi_token_index": 93}
    yield Case("wrapped gemma3", "new_names", gemma)
    yield Case("wrapped gemma3", "old_names", gemma, rename=old)
    yield Case("wrapped gemma3", "inner_untied", gemma | {"text_config": GEMMA3 | {"tie_word_embeddings": False}})
    yield Case("wrapped gemma3", "outer_untied", gemma | {"tie_word_embeddings": False})
    yield Case("wrapped gemma3", "bfloat16", gemma, dtype="bfloat16")
    yield Case("wrapped gemma3", "quantized", gemma | {"quantization_config": {"quant_method": "gptq"}},
               refused=("quantization_config", "gptq"))
    sight = {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "head_dim": 8, "image_size": 28, "patch_size": 14}
    inner = {"model_type": "mistral", "sliding_window": None} | TINY
    mistral = {"model_type": "mistral3", "text_config": inner, "vision_config": sight, "image_token_index": 95,
               "spatial_merge_size": 2}
    yield Case("wrapped mistral3", "untied", mistral | {"tie_word_embeddings": False})
    yield Case("wrapped mistral3", "tied_by_silence", mistral)
    yield Case("wrapped mistral3", "old_names", mistral | {"tie_word_embeddings": False}, rename=old)
    yield Case("wrapped mistral3", "old_names_tied_by_silence", mistral, rename=old)
    deep = {"model_type": "ministral3", "head_dim": 12, "rope_parameters": YARN | {
        "rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}} | TINY
    yield Case("wrapped mistral3", "ministral3_inside", mistral | {"text_config": deep, "tie_word_embeddings": False})


    clip = {"model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 28, "patch_size": 14, "projection_dim": 16}
    for kind in ("llava", "llava_next"):
        more = {"image_grid_pinpoints": [[28, 28]]} if kind == "llava_next" else {}
        outer = {"model_type": kind, "text_config": {"model_type": "llama"} | TINY, "vision_config": clip,
                 "image_token_index": 95, "vision_feature_layer": -1} | more
        yield Case(f"wrapped {kind}", "new_names", outer)
        yield Case(f"wrapped {kind}", "old_names", outer, rename=old)
    sight = {"model_type": "internvl_vision", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2, "image_size": [28, 28], "patch_size": [14, 14]}
    outer = {"model_type": "internvl", "text_config": {"model_type": "qwen2"} | TINY, "vision_config": sight, "image_token_id": 95}
    yield Case("wrapped internvl", "tied_by_silence", outer)
    yield Case("wrapped internvl", "untied", outer | {"tie_word_embeddings": False})
    yield Case("wrapped paligemma", "sees_its_prompt_both_ways",
               {"model_type": "paligemma", "text_config": GEMMA3 | {"model_type": "gemma2"}}, refused=("paligemma",))


def phi3():
    base = {"model_type": "phi3", "pad_token_id": 0} | TINY
    long = {"original_max_position_embeddings": ORIGINAL}
    rope = without(LONGROPE, "original_max_position_embeddings")
    yield Case("phi3", "plain", base)
    yield Case("phi3", "window", base | {"sliding_window": WINDOW})
    yield Case("phi3", "partial", base | {"partial_rotary_factor": 0.5})
    yield Case("phi3", "partial_new", base | new_rope(1e4, {"partial_rotary_factor": 0.5}))
    yield Case("phi3", "longrope", base | long | old_rope(1e4, rope))
    yield Case("phi3", "longrope_new", base | long | new_rope(1e4, rope))
    yield Case("phi3", "longrope_near_the_end", base | long | old_rope(1e4, rope), prompt=ORIGINAL - 1)
    yield Case("phi3", "longrope_beyond", base | long | old_rope(1e4, rope), prompt=ORIGINAL + 1)
    yield Case("phi3", "longrope_called_yarn", base | long | old_rope(1e4, rope | {"rope_type": "yarn"}))
    yield Case("phi3", "longrope_factor", base | long | old_rope(1e4, rope | {"factor": 9.0}))
    yield Case("phi3", "longrope_attention_factor", base | long | old_rope(1e4, rope | {"attention_factor": 1.7}))
    yield Case("phi3", "longrope_original_in_the_object", base | old_rope(1e4, LONGROPE))
    yield Case("phi3", "longrope_original_twice", base | {"original_max_position_embeddings": 20} | old_rope(1e4, LONGROPE))
    yield Case("phi3", "longrope_partial", base | long | {"num_attention_heads": 2} | {"partial_rotary_factor": 0.5}
               | old_rope(1e4, rope))
    yield Case("phi3", "longrope_and_window", base | long | {"sliding_window": WINDOW} | old_rope(1e4, rope))
    yield from (case for case in head_cases("phi3", base) if "head_dim" not in case.name)
    yield from act_cases("phi3", base, activations=("silu", "gelu"))
    yield from mixed_cases("phi3", base | long, without(COMMON, "head_dim", "*rope", "hidden_size") | WINDOWED | {
        "*rope": [old_rope(1e4, rope), new_rope(5e5, {}), {"partial_rotary_factor": 0.5}]}, 1)


def gpt2():
    base = {"model_type": "gpt2", "vocab_size": 96, "n_positions": CONTEXT, "n_embd": 48, "n_layer": 3, "n_head": 4}
    yield Case("gpt2", "plain", base)
    for scaled in (True, False):
        for by_layer in (True, False):
            for upcast in (True, False):
                yield Case("gpt2", f"scale_{scaled}_{by_layer}_{upcast}".lower(), base | {
                    "scale_attn_weights": scaled, "scale_attn_by_inverse_layer_idx": by_layer,
                    "reorder_and_upcast_attn": upcast})
    yield Case("gpt2", "n_inner", base | {"n_inner": 56})
    yield Case("gpt2", "n_inner_null", base | {"n_inner": None})
    yield Case("gpt2", "untied", base | {"tie_word_embeddings": False})
    yield Case("gpt2", "eps", base | {"layer_norm_epsilon": 1e-2})
    yield Case("gpt2", "common_names", without(base, "n_positions", "n_embd", "n_layer", "n_head") | {
        "max_position_embeddings": CONTEXT, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4})
    yield Case("gpt2", "no_prefix", base, rename=(("transformer.", ""),))
    yield Case("gpt2", "neutral_keys", base | {"n_ctx": CONTEXT, "summary_type": "cls_index", "resid_pdrop": 0.3,
                                               "task_specific_params": {"text-generation": {"do_sample": True}}})
    for dtype in ("float16", "bfloat16"):
        yield Case("gpt2", dtype, base, dtype=dtype)
    yield from act_cases("gpt2", base, "activation_function")
    yield from mixed_cases("gpt2", base, {
        "n_embd": [32, 64], "n_layer": [2, 5], "n_head": [1, 2, 8], "n_inner": [None, 40], "vocab_size": [64, 300],
        "activation_function": ["gelu_new", "gelu", "relu"], "tie_word_embeddings": [True, False],
        "scale_attn_by_inverse_layer_idx": [True, False]}, 1)


def what_files_leave_out():
    """Files of transformers 4 had only what differs from the class, inside text_config above all."""
    unsaid = {"gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208},
              "gemma2": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}}
    for family, defaults in unsaid.items():
        small = {"model_type": family, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
        keep = {} if "vocab_size" in defaults else {"vocab_size": 96}
        yield Case("defaults", family, small | keep | {"max_position_embeddings": CONTEXT})
    yield Case("defaults", "llama", {"model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 48,
                                     "num_hidden_layers": 2})
    yield Case("defaults", "gpt2", {"model_type": "gpt2", "vocab_size": 96, "n_embd": 48, "n_layer": 2})


# ---------------------------------------------------------------- encoders

POOLING = "1_Pooling/config.json"
MODULES = "modules.json"


def modules(*types):
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize", "Dense": "2_Dense"}
    return {MODULES: [{"idx": i, "name": str(i), "path": paths[kind], "type": f"sentence_transformers.models.{kind}"}
                      for i, kind in enumerate(types)]}


def bert():
    base = {"model_type": "bert", "vocab_size": 64, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3,
            "num_attention_heads": 4, "max_position_embeddings": CONTEXT, "type_vocab_size": 2}
    yield Case("bert", "plain", base)
    yield Case("bert", "old_names", base, rename=(("", "bert."),))
    yield Case("bert", "eps", base | {"layer_norm_eps": 1e-2})
    yield Case("bert", "heads", base | {"num_attention_heads": 1})
    yield Case("bert", "one_type", base | {"type_vocab_size": 1})
    yield Case("bert", "neutral_keys", base | {"position_embedding_type": "absolute", "hidden_dropout_prob": 0.5,
                                               "classifier_dropout": None, "gradient_checkpointing": True, "tie_word_embeddings": False})
    for dtype in ("float16", "bfloat16"):
        yield Case("bert", dtype, base, dtype=dtype)
    yield Case("bert", "sharded", base, shards=True)
    yield from act_cases("bert", base)
    mean = modules("Transformer", "Pooling") | {POOLING: {"word_embedding_dimension": 48, "pooling_mode_mean_tokens": True,
                                                          "pooling_mode_cls_token": False}}
    first = {POOLING: {"word_embedding_dimension": 48, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}
    unit = modules("Transformer", "Pooling", "Normalize")
    yield Case("bert", "mean", base, files=mean)
    yield Case("bert", "mean_unit", base, files=mean | unit, unit=True)
    yield Case("bert", "first", base, files=mean | first, pooling="cls")
    yield Case("bert", "first_unit", base, files=mean | unit | first, pooling="cls", unit=True)
    yield Case("bert", "word_for_pooling", base, files=mean | {POOLING: {"pooling_mode": "cls"}}, pooling="cls")
    yield Case("bert", "max_length", base, files=mean | {"sentence_bert_config.json": {"max_seq_length": 6}}, max_length=6)
    for way in ("max_tokens", "lasttoken", "weightedmean_tokens", "mean_sqrt_len_tokens"):
        pool = {POOLING: {f"pooling_mode_{way}": True}}
        yield Case("bert", f"pooling_{way}", base, files=mean | pool, refused=(f"pooling_mode_{way}",))
    yield Case("bert", "two_ways", base, refused=("pooling_mode_cls_token",), files=mean | {
        POOLING: {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}})
    yield Case("bert", "dense", base, refused=("Dense",), files=modules("Transformer", "Pooling", "Dense"))
    prompts = {"prompts": {"query": "w1 "}, "default_prompt_name": "query"}
    yield Case("bert", "prompts", base, files=mean | {"config_sentence_transformers.json": prompts | {"default_prompt_name": None}})
    yield Case("bert", "prompt_by_default", base, refused=("default_prompt_name", "query"),
               files=mean | {"config_sentence_transformers.json": prompts})
    for key, value in (("is_decoder", True), ("position_embedding_type", "relative_key"),
                       ("quantization_config", {"quant_method": "gptq"})):
        yield Case("bert", f"other_{key}", base | {key: value}, refused=(key,))
    for kind in ("roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert", "electra", "camembert", "nomic_bert"):
        yield Case("other encoders", kind, base | {"model_type": kind}, refused=(f'"{kind}"', "bert"))


def every_case():
    for family in (llama, mistral, ministral3, smollm3, qwen, moe, gemma2, gemma3, wrappers, phi3, gpt2,
                   what_files_leave_out, bert):
        yield from family()
