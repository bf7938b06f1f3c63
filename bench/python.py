"""Speed of the Python module beside safetensors, tokenizers and torch: reading, saving, encoding, calling, importing, checkpoints.

usage: scripts/bench_python [--rounds N] [--size MIB] [--only-checkpoints] [--folder DIR]

Each measurement runs in a process of its own, the two programs take turns, and every page that was read is looked at
(one element of it), so that a mapping which reads nothing yet gains nothing. Prints a table for
docs/performance.md. For checkpoints what counts is how long training stands still: a PyTorch model and its AdamW of
500 MB are saved six times each way, always changed since and with the save before completed.
"""
import argparse, json, statistics, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from environment import cache_folder, enter_environment  # noqa: E402

MAKE = """
import numpy as np, safetensors.numpy as s, sys
rng = np.random.default_rng(1)
large = {f"layer.{i}.weight": rng.standard_normal((1024, 1024), np.float32) for i in range(int(sys.argv[2]) // 4)}
s.save_file(large, sys.argv[1] + "/large.safetensors")
small = {f"blocks.{i}.norm.weight": rng.standard_normal(64, np.float32) for i in range(20000)}
s.save_file(small, sys.argv[1] + "/small.safetensors")
"""
# Reads one element of each page of an array.
LOOK = """
def look(a): return a.item(0) if a.nbytes <= 4096 else float(a.ravel()[::1024].sum())
"""
# Prints the seconds of the last of three runs. {library} is ballast.safetensors or safetensors.
READ = LOOK + """
import sys, time, numpy as np
from {library}.numpy import load_file
for _ in range(3):
    begin = time.perf_counter(); arrays = load_file(sys.argv[1]); read = time.perf_counter() - begin
    total = sum(look(a) for a in arrays.values()); touched = time.perf_counter() - begin
    del arrays
print(touched)
"""
VIEW = LOOK + """
import sys, time, numpy as np
if {ours}:
    import ballast
    def load(path): return ballast.open(path).arrays()
else:
    from safetensors.numpy import load_file as load
for _ in range(3):
    begin = time.perf_counter(); arrays = load(sys.argv[1])
    total = sum(look(a) for a in arrays.values()); touched = time.perf_counter() - begin
    del arrays
print(touched)
"""
TORCH = """
import sys, time, torch
from {library}.torch import load_file
for _ in range(3):
    begin = time.perf_counter(); tensors = load_file(sys.argv[1])
    total = sum(float(t.view(-1)[::1024].sum()) for t in tensors.values()); touched = time.perf_counter() - begin
    del tensors
print(touched)
"""
SAVE = """
import os, sys, time
from safetensors.numpy import load_file
arrays = load_file(sys.argv[1]); path = sys.argv[2] + "/saved.safetensors"
if {ours}:
    import ballast
    def save(): ballast.save(path, arrays, sync={durable})
else:
    from safetensors.numpy import save_file
    def save():
        save_file(arrays, path)
        if {durable}:
            fd = os.open(path, os.O_RDWR); os.fsync(fd); os.close(fd)
for _ in range(2):
    begin = time.perf_counter(); save(); spent = time.perf_counter() - begin
os.remove(path)
print(spent)
"""
# Batches of paragraphs with the same tokenizer.json on all processors, with the ids as lists; the fastest of five rounds
# behind one that warms up. Theirs is the variant that leaves offsets out, which ours finds only when asked.
ENCODE = """
import hashlib, json, sys, time
texts = json.load(open(sys.argv[1]))
if {ours}:
    import ballast
    tokenizer = ballast.Tokenizer(sys.argv[2]); encode = tokenizer.encode_batch
else:
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[2]); encode = tokenizer.encode_batch_fast
times = []
for _ in range(6):
    begin = time.perf_counter(); ids = [encoding.ids for encoding in encode(texts)]; times.append(time.perf_counter() - begin)
print(min(times[1:]), hashlib.sha256(json.dumps(ids).encode()).hexdigest())
"""
# All of a call on a network of one weight, which computes next to nothing; the library's share is in it.
CALL = """
import sys, timeit, numpy, ballast
folder = sys.argv[1]
numpy.savez(folder + "/line.npz", x=numpy.ones((4, 1), numpy.float32), y=numpy.ones((4, 1), numpy.float32))
ballast.train({"model": {"kind": "mlp", "hidden": []}, "data": {"kind": "npz", "path": folder + "/line.npz"},
               "train": {"steps": 1, "output": folder + "/line.netcl", "threads": 1}}, overwrite=True)
x = numpy.ones((1, 1), numpy.float32)
model = ballast.load(folder + "/line.netcl", threads=1)
print(min(timeit.repeat(lambda: model.forward(x), number=2000, repeat=10)) / 2000)
"""
IMPORT = "import time; t = time.perf_counter(); import ballast; print(time.perf_counter() - t)"

# Prints the pause of the first save and the median of the others. {way} is ballast, torch or async.
PAUSE = """
import os, statistics, sys, time, torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(40)))
optimizer = torch.optim.AdamW(model.parameters())
def train():
    for parameter in model.parameters(): parameter.grad = torch.ones_like(parameter)
    optimizer.step()
def state(): return {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
folder = sys.argv[1] + "/{way}"
if "{way}" == "ballast":
    import ballast
    manager = ballast.CheckpointManager(folder, {{"model": model, "optimizer": optimizer}}, keep_last=1)
    def save(step): manager.save(step); return manager.wait
elif "{way}" == "torch":
    os.makedirs(folder)
    def save(step): torch.save(state(), folder + "/state.pt"); return lambda: None
else:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    def save(step): return dcp.async_save(state(), checkpoint_id=folder).result
pauses = []
for step in range(6):
    train()
    begin = time.perf_counter(); finish = save(step); pauses.append(time.perf_counter() - begin)
    finish()
print(pauses[0], statistics.median(pauses[1:]), flush=True)
"""


def told(code, *words):
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.split()


def timed(code, *words):
    return float(told(code, *words)[0])


def compare(what, codes, words, rounds, target):
    ours, theirs = [], []
    for _ in range(rounds):
        mine, other = told(codes[0], *words), told(codes[1], *words)
        if mine[1:] != other[1:]:
            sys.exit(f"bench: {what}: the two do not give the same")
        ours.append(float(mine[0]))
        theirs.append(float(other[0]))
    mine, other = statistics.median(ours), statistics.median(theirs)
    ratio = other / mine
    met = "met" if ratio >= target else "**missed**"
    print(f"| {what} | {mine * 1e3:.1f} ms | {other * 1e3:.1f} ms | {ratio:.2f} x | {target:.1f} x | {met} |", flush=True)


def both(code):
    return code.format(library="ballast.safetensors"), code.format(library="safetensors")


def compare_pauses(folder):
    """A third of torch.save's, and less than async_save's. The first save of a run allocates memory for its copy."""
    first, later = {}, {}
    for way in ("ballast", "torch", "async"):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", PAUSE.format(way=way), folder], stdout=subprocess.PIPE, check=True)
        first[way], later[way] = map(float, done.stdout.split())
    print("\n| pause of training for 500 MB | ballast | torch.save | async_save | target | |\n|---|---|---|---|---|---|")
    for when, pause in (("first save", first), ("each later save", later)):
        met = pause["ballast"] * 3 <= pause["torch"] and pause["ballast"] < pause["async"]
        numbers = " | ".join(f"{pause[way] * 1e3:.0f} ms" for way in ("ballast", "torch", "async"))
        print(f"| {when} | {numbers} | 1/3, less | {'met' if met else '**missed**'} |", flush=True)


def paragraphs():
    """Paragraphs of the English prose that the tokenizer is measured with."""
    sys.path.insert(0, str(ROOT / "tests/interop"))
    import token_texts
    return [part for part in token_texts.prose(2 << 20).split("\n\n") if part.strip()]


def bounded(what, seconds, limit, unit, factor):
    met = "met" if seconds < limit else "**missed**"
    print(f"| {what} | {seconds * factor:.1f} {unit} | | | < {limit * factor:.0f} {unit} | {met} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file (default 1024)")
    parser.add_argument("--only-checkpoints", action="store_true", help="measure the pauses of checkpoints alone")
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    options = parser.parse_args()
    files = ("requirements.txt", "requirements-torch.txt")
    enter_environment(cache_folder("python"), *(ROOT / "tests/python" / file for file in files))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        compare_pauses(folder)
    if options.only_checkpoints:
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        subprocess.run([sys.executable, "-c", MAKE, folder, str(options.size)], check=True)
        large, small = f"{folder}/large.safetensors", f"{folder}/small.safetensors"
        print("| | ballast | safetensors | faster by | target | |\n|---|---|---|---|---|---|")
        view = VIEW.format(ours=True), VIEW.format(ours=False)
        compare(f"{options.size} MiB into NumPy, drop-in", both(READ), [large], options.rounds, 1)
        compare(f"{options.size} MiB into NumPy, views", view, [large], options.rounds, 1)
        compare("20,000 small tensors into NumPy, drop-in", both(READ), [small], options.rounds, 3)
        compare("20,000 small tensors into NumPy, views", view, [small], options.rounds, 3)
        compare(f"{options.size} MiB into torch", both(TORCH), [large], options.rounds, 1)
        for durable in (False, True):
            codes = [SAVE.format(ours=ours, durable=durable) for ours in (True, False)]
            how = "durable" if durable else "not waiting for the disk"
            compare(f"saving {options.size} MiB, {how}", codes, [large, folder], options.rounds, 1)
        texts = paragraphs()
        Path(f"{folder}/texts.json").write_text(json.dumps(texts))
        size = sum(len(text.encode()) for text in texts) / 2**20
        compare(f"encode_batch: {len(texts)} paragraphs, {size:.1f} MiB, beside tokenizers",
                [ENCODE.format(ours=ours) for ours in (True, False)],
                [f"{folder}/texts.json", ROOT / "tests/data/tokenizers/bpe_gpt2.json"], options.rounds, 5)
        bounded("a call on a network of one weight", min(timed(CALL, folder) for _ in range(3)), 10e-6, "us", 1e6)
    bounded("import", statistics.median(timed(IMPORT) for _ in range(max(options.rounds, 5))), 0.08, "ms", 1e3)


if __name__ == "__main__":
    main()
