"""What logits would be if nothing but the weights were rounded: PyTorch in f32, on the weights that gguf's own package restores.

Quantised rows are judged by it. llama.cpp rounds activations to 8 bits and is farther from it than Ballast, so that comparing
the two would measure llama.cpp's rounding. Nothing of Ballast takes part, neither its readers nor its arithmetic. Logits
depend on the file and the tokens alone, so they are computed once, in a process of their own, and stay in the cache.
"""
import json, os, subprocess, sys
from pathlib import Path

from environment import CannotRun, key_of

BENCH = Path(__file__).resolve().parent.parent


def logits(cache, path, tokens):
    """Behind the last of these tokens."""
    import numpy
    folder = cache / "reference"
    folder.mkdir(exist_ok=True)
    state = os.stat(path)
    source = json.dumps([str(path), state.st_size, state.st_mtime_ns, tokens]).encode()
    kept = folder / f"{key_of(source, Path(__file__), BENCH / 'peers/torch_from_gguf.py')}.f32"
    if not kept.exists():
        unfinished = kept.with_suffix(".unfinished")
        words = [sys.executable, "-B", "-m", "peers.reference", str(path), str(unfinished)]
        done = subprocess.run(words, input=json.dumps(tokens), text=True, stdout=subprocess.DEVNULL,
                              env={**os.environ, "PYTHONPATH": str(BENCH)})
        if done.returncode != 0:
            raise CannotRun(f"the reference of {path} could not be computed")
        os.rename(unfinished, kept)
    return numpy.fromfile(kept, numpy.float32)


def compute(path, tokens, out):
    import torch
    from peers.torch_from_gguf import load
    with torch.inference_mode():
        found = load(path, torch.float32)(torch.tensor([tokens]), use_cache=False, logits_to_keep=1).logits
    found[0, -1].numpy().tofile(out)


if __name__ == "__main__":
    compute(sys.argv[1], json.load(sys.stdin), sys.argv[2])
