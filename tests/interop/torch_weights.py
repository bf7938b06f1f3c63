"""Models of PyTorch with weights that any language can make anew: tests/support/torch_recordings.cc is the same rule.

Element i of a tensor is offset + amplitude * u, where u in [-1, 1) comes from the upper 24 bits of
counter_random(seed, i) of ballast/base/counter_random.h, the seed is the FNV-1a hash of the tensor's name, and offset
and amplitude follow from name and shape. Where there is an offset the amplitude is a power of two, so that no rounding
depends on how a compiler multiplies and adds.
"""

import math

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
CHUNK = 1 << 18  # fits the cache


def fnv1a(text):
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    return state


def mix(z):
    """SplitMix64's finaliser, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z


def rule(name, shape):
    """(offset, amplitude) such that activations stay about as large as they are."""
    if name == "patches":
        return 0.0, 2.0
    if name == "noise":
        return 0.0, 0.5
    if name.endswith("running_var"):
        return 1.0, 0.5
    if name.endswith("running_mean"):
        return 0.0, 0.25
    # Large positions and a quiet rest: else all places come to say the same, or any rounding comes to matter.
    if name.endswith("wte.weight"):
        return 0.0, 0.1875
    if name.endswith("wpe.weight"):
        return 0.0, 2.0
    if len(shape) == 4:
        return 0.0, math.sqrt(6.0 / math.prod(shape[1:]))
    if len(shape) == 2:
        if not name.startswith("transformer."):
            return 0.0, math.sqrt(3.0 / shape[1])
        gain = 0.5 if name.endswith("c_proj.weight") else 1.0
        return 0.0, gain * math.sqrt(3.0 / shape[0])  # GPT-2 has [in, out]
    if name.endswith("bias"):
        return 0.0, 0.125
    # The last norm of a block that is added to its input is quiet, because such sums grow.
    return (0.25, 0.125) if name.endswith(".bn2.weight") else (1.0, 0.25)


def values(name, shape):
    offset, amplitude = map(np.float32, rule(name, shape))
    start = int(mix(np.array([(fnv1a(name) + GOLDEN) & MASK], np.uint64))[0])
    count = math.prod(shape)
    out = np.empty(count, np.float32)
    steps = np.arange(1, CHUNK + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    for at in range(0, count, CHUNK):
        z = steps[: count - at] + np.uint64((start + at * GOLDEN) & MASK)
        u = (mix(z) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
        out[at:at + CHUNK] = offset + amplitude * u
    return out.reshape(shape)


def images(count, height, width):
    """Coarse patches, by which images differ from each other, under some noise."""
    rows, columns = np.arange(height) * 8 // height, np.arange(width) * 8 // width
    patches = values("patches", (count, 3, 8, 8))
    return patches[:, :, rows][:, :, :, columns] + values("noise", (count, 3, height, width))


# ---------------------------------------------------------------- models


def build(kind):
    """An eval() model in f32 with seeded weights, and its state without tied copies: {name: array}."""
    import torch
    import torchvision
    import transformers
    with torch.device("meta"):
        if kind == "gpt2_small":
            config = transformers.GPT2Config()  # the defaults are GPT-2 small
            model = transformers.GPT2LMHeadModel(config)
        else:
            model = getattr(torchvision.models, kind)()
    model = model.to_empty(device="cpu")
    if kind == "gpt2_small":
        model.tie_weights()
    state, seen = {}, set()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.data_ptr() in seen and tensor.numel() > 1:
                continue
            seen.add(tensor.data_ptr())
            if tensor.dtype == torch.int64:  # num_batches_tracked
                tensor.zero_()
                state[name] = tensor.numpy()
                continue
            state[name] = values(name, tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(state[name]))
    return model.eval(), state


def save(kind, folder):
    """The model, and a folder with its weights as their owners would keep them."""
    from safetensors.numpy import save_file
    model, state = build(kind)
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "gpt2_small":
        model.config.save_pretrained(folder)
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return model, {name: list(array.shape) for name, array in state.items() if array.dtype == np.float32}
