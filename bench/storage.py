"""The rows of the storage table: each piece of work, everyone who does it, and what Ballast has to reach.

A row is measured in rounds in which everyone has a turn, so that a disturbance of the machine hits all of them.
"""
import json, os, shutil, statistics, subprocess, time

INNER = 3  # runs in one turn of work that takes milliseconds
GIB = 1 << 30


class Programs:
    def __init__(self, build, peers, rounds):
        self.bench = build / "bin/ballast_bench"
        self.ballast = build / "bin/ballast"
        self.peers = peers
        self.rounds = rounds


def run_json(*words):
    line = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout
    return json.loads(line)["times_ms"]


def command(*words):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


def timed(body, before=lambda: None, runs=1):
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        body()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def synced(path):
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def make_cold(*paths):
    for path in paths:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# ---------------------------------------------------------------- the files


def make_files(folder, programs, size_mib):
    import numpy as np
    import ztensor.numpy
    from safetensors.numpy import save_file
    random = np.random.default_rng(1)

    def noise(count):
        # Any bits but those of infinities and NaN, which `verify` would complain about.
        return random.integers(0, 2**30, count, dtype=np.int32).view(np.float32)

    large = {f"block.{i}.weight": noise(4 << 20) for i in range(size_mib // 16)}
    save_file(large, folder / "large.safetensors")
    np.savez(folder / "large.npz", **large)
    ztensor.numpy.save_file(large, folder / "large.zt")
    save_file({"weight": noise(size_mib << 18)}, folder / "one.safetensors")
    for name, count in (("small", 20000), ("many", 100000)):
        tensors = {f"layer.{i}.bias": random.standard_normal(16).astype(np.float32) for i in range(count)}
        save_file(tensors, folder / f"{name}.safetensors")
        if name == "small":
            np.savez(folder / "small.npz", **tensors)
            ztensor.numpy.save_file(tensors, folder / "small.zt")
    for name in ("large", "small"):
        command(programs.ballast, "convert", folder / f"{name}.safetensors", folder / f"{name}.bpk")
    shutil.copyfile(folder / "large.safetensors", folder / "twin.safetensors")
    command("sync")
    return large


# ---------------------------------------------------------------- what the table says


class Row:
    """One piece of work. `target` says what is asked of Ballast and judges the results: see the functions below."""

    def __init__(self, work, contenders, target=None, size=0, threads=1):
        self.work = work
        self.contenders = contenders  # name -> a function that gives one turn's times; the first is Ballast
        self.target = target
        self.size = size  # bytes that the work goes through, for GB/s
        self.threads = threads
        self.times = {}
        self.results = {}

    def measure(self, rounds):
        for _ in range(rounds):
            self.round()
        self.conclude()

    def round(self):
        for name, turn in self.contenders.items():
            self.times.setdefault(name, []).extend(turn())

    def conclude(self):
        self.results = {name: {"best_ms": min(t), "median_ms": statistics.median(t), "runs": len(t)}
                        for name, t in self.times.items()}

    def ours(self):
        return next(iter(self.results.values()))["median_ms"]

    def peers(self):
        return {name: r["median_ms"] for name, r in list(self.results.items())[1:]}

    def verdict(self):
        return self.target(self) if self.target else ("", "", None)


def judged(text, reached, met):
    return text, reached, met


def at_most_of(share, *names):
    """At most this share of the best of the named peers (of all, when none is named)."""
    def target(row):
        best = min((t, n) for n, t in row.peers().items() if not names or n in names)
        ratio = row.ours() / best[0]
        return judged(f"at most {share:g} x the best peer", f"{ratio:.2f} x {best[1]}", ratio <= share)
    return target


def speed_of(share, name, what=None):
    """At least this share of the speed of one peer."""
    def target(row):
        ratio = row.peers()[name] / row.ours()
        return judged(what or f"at least {share:g} x the speed of {name}", f"{ratio:.2f} x", ratio >= share)
    return target


def both(first, second):
    def target(row):
        a, b = first(row), second(row)
        if not b[0]:
            return a
        return judged(f"{a[0]}; {b[0]}", f"{a[1]}; {b[1]}", a[2] and b[2])
    return target


def best_of_peers(*names):
    def target(row):
        best = min((t, n) for n, t in row.peers().items() if n in names)
        ratio = best[0] / row.ours()
        return judged("at least 1 x the speed of the best peer that syncs", f"{ratio:.2f} x {best[1]}", ratio >= 1)
    return target


def gigabytes(least):
    def target(row):
        reached = row.size / row.ours() / 1e6
        return judged(f"at least {least:g} GB/s", f"{reached:.1f} GB/s", reached >= least)
    return target


def milliseconds(most):
    def target(row):
        return judged(f"at most {most:g} ms", f"{row.ours():.1f} ms", row.ours() <= most)
    return target


def grows_with(row_before, factor):
    def target(row):
        if not row_before.results:  # left out by --only
            return judged("", "", None)
        growth = row.ours() / row_before.ours()
        return judged(f"at most {factor * 1.2:g} x the time of {row_before.work} (linear, and 20 %)", f"{growth:.2f} x",
                      growth <= factor * 1.2)
    return target


# ---------------------------------------------------------------- the rows


class Storage:
    def __init__(self, folder, programs, size_mib):
        self.folder = folder
        self.programs = programs
        self.size_mib = size_mib
        self.size = size_mib << 20
        self.large = make_files(folder, programs, size_mib)

    # Ballast, and the crates, in their own processes.
    def ours(self, work, *files, runs=1, threads=0, cold=False):
        flags = ["--runs", runs, "--threads", threads] + (["--cold"] if cold else [])
        return lambda: run_json(self.programs.bench, *flags, work, *(self.folder / f for f in files))

    def crate(self, work, *files, runs=1):
        return lambda: run_json(self.programs.peers, runs, work, *(self.folder / f for f in files))

    # The Python packages, in this one.
    def python(self, body, runs=1, removes=None):
        def before():
            if removes:
                (self.folder / removes).unlink(missing_ok=True)
        return lambda: timed(body, before, runs)

    def process(self, *words, removes=None, cold=()):
        def before():
            if removes:
                (self.folder / removes).unlink(missing_ok=True)
            make_cold(*(self.folder / f for f in cold))
        return lambda: timed(lambda: command(*words), before)

    def rows(self):
        yield from self.opening()
        yield from self.reading()
        yield from self.writing()
        yield from self.whole_file_work()
        yield from self.cold()

    def opening(self):
        import numpy as np
        import ztensor
        from safetensors import safe_open

        def st_open(name):
            with safe_open(self.folder / name, "np") as file:
                return len(list(file.keys()))

        def np_open(name):
            with np.load(self.folder / name) as file:
                return len(file.files)

        def zt_open(name):
            return len(ztensor.open(str(self.folder / name)))

        def safetensors_row(work, name, own_zt, target):
            return Row(work, {
                "ballast": self.ours("open", f"{name}.safetensors", runs=INNER),
                "safetensors (Rust)": self.crate("safetensors-open", f"{name}.safetensors", runs=INNER),
                "safetensors (Python)": self.python(lambda: st_open(f"{name}.safetensors"), INNER),
                "zTensor": self.python(lambda: zt_open(f"{name}.safetensors")),
                **({"zTensor, .zt": self.python(lambda: zt_open(f"{name}.zt"))} if own_zt else {}),
            }, target)

        yield safetensors_row(f"open {self.size_mib // 16} tensors of 16 MiB", "large", True, at_most_of(0.5))
        small = safetensors_row("open 20,000 tensors", "small", True, at_most_of(0.5))
        yield small
        many = safetensors_row("open 100,000 tensors", "many", False,
                               both(at_most_of(0.5), grows_with(small, 5)))
        yield many
        yield Row("open 20,000 tensors, burnpack", {
            "ballast": self.ours("open", "small.bpk", runs=INNER),
            "burn-pack (Rust)": self.crate("burnpack-open", "small.bpk", runs=INNER)}, at_most_of(0.5))
        yield Row("open 20,000 tensors, npz", {
            "ballast": self.ours("open", "small.npz", runs=INNER),
            "NumPy": self.python(lambda: np_open("small.npz"))}, at_most_of(0.5))
        yield Row("`inspect` of 20,000 tensors, whole process", {
            "ballast inspect": self.process(self.programs.ballast, "inspect", self.folder / "small.safetensors"),
            "ballast --version": self.process(self.programs.ballast, "--version")}, milliseconds(50))

    def reading(self):
        import numpy as np
        import ztensor.numpy
        from safetensors import safe_open

        def st_sum(name):
            with safe_open(self.folder / name, "np") as file:
                return sum(int(file.get_tensor(k).view(np.uint64).sum()) for k in file.keys())

        def np_sum(name):
            with np.load(self.folder / name) as file:
                return sum(int(file[k].view(np.uint64).sum()) for k in file.files)

        def zt_sum(name):
            return sum(int(t.view(np.uint64).sum()) for t in ztensor.numpy.load_file(str(self.folder / name)).values())

        def row(work, name, target, **extra):
            return Row(work, {
                "ballast": self.ours("read", f"{name}.safetensors"),
                "safetensors (Rust)": self.crate("safetensors-read", f"{name}.safetensors"),
                "burn-pack (Rust), .bpk": self.crate("burnpack-read", f"{name}.bpk"),
                "safetensors (Python)": self.python(lambda: st_sum(f"{name}.safetensors")),
                "NumPy, .npz": self.python(lambda: np_sum(f"{name}.npz")),
                "zTensor": self.python(lambda: zt_sum(f"{name}.safetensors")),
                **extra,
            }, target, size=(self.folder / f"{name}.safetensors").stat().st_size)

        yield row(f"read {self.size_mib} MiB and sum", "large", speed_of(0.9, "plain mapping"),
                  **{"plain mapping": self.ours("mapping", "large.safetensors")})
        yield row("read 20,000 tensors and sum", "small", None)

    def writing(self):
        import numpy as np
        import ztensor.numpy
        from safetensors.numpy import save_file
        out = self.folder / "peer.out"
        copied = self.folder / "copy.out"

        def durable(save):
            def body():
                save()
                synced(out)
            return self.python(body, removes="peer.out")

        def np_save():
            with open(out, "wb") as file:
                np.savez(file, **self.large)

        def copy_and_sync():
            command("cp", "--reflink=never", self.folder / "large.safetensors", copied)
            command("sync", copied)

        dd = ("dd", f"if={self.folder / 'large.safetensors'}", f"of={copied}", "bs=8M", "conv=fsync", "status=none")
        syncing = ("safetensors (Rust) + fsync", "safetensors (Python) + fsync", "NumPy + fsync", "zTensor + fsync",
                   "burn-pack (Rust), atomic")
        yield Row(f"write {self.size_mib} MiB, durable", {
            "ballast": self.ours("write", "large.safetensors", "out.safetensors"),
            "safetensors (Rust) + fsync": self.crate("safetensors-write", "large.safetensors", "peer.out"),
            "burn-pack (Rust), atomic": self.crate("burnpack-write", "large.safetensors", "peer.bpk"),
            "safetensors (Python) + fsync": durable(lambda: save_file(self.large, out)),
            "NumPy + fsync": durable(np_save),
            "zTensor + fsync": durable(lambda: ztensor.numpy.save_file(self.large, str(out))),
            "dd conv=fsync": self.process(*dd, removes="copy.out"),
        }, both(best_of_peers(*syncing), speed_of(0.85, "dd conv=fsync")), size=self.size)
        yield Row(f"`convert` {self.size_mib} MiB safetensors to burnpack", {
            "ballast": self.ours("convert", "large.safetensors", "out.bpk", threads=2),
            "cp + sync": self.python(copy_and_sync, removes="copy.out"),
        }, speed_of(0.7, "cp + sync"), size=self.size)
        for name in ("peer.out", "peer.bpk", "copy.out", "out.bpk", "out.safetensors"):
            (self.folder / name).unlink(missing_ok=True)

    def whole_file_work(self):
        mapping = self.ours("mapping", "large.safetensors")
        for work, name in ((f"content digest of {self.size_mib} MiB", "large"),
                           (f"content digest of one tensor of {self.size_mib} MiB", "one")):
            yield Row(work, {"ballast": self.ours("digest", f"{name}.safetensors", threads=2),
                             "summing a plain mapping, 1 thread": mapping}, gigabytes(3), size=self.size, threads=2)
        files = ("large.safetensors", "twin.safetensors")
        yield Row(f"`diff` of two equal files of {self.size_mib} MiB", {
            "ballast": self.ours("diff", *files, threads=2),
            "cmp": self.process("cmp", *(self.folder / f for f in files))}, gigabytes(4), size=2 * self.size, threads=2)

    def cold(self):
        large = self.folder / "large.safetensors"
        dd = self.process("dd", f"if={large}", "of=/dev/null", "bs=8M", "iflag=direct", "status=none",
                          cold=("large.safetensors",))
        target = speed_of(0.9, "dd iflag=direct")
        for work, name, threads in (("content digest", "digest", 2), ("every tensor into memory", "load", 1)):
            yield Row(f"cold: {work}, {self.size_mib} MiB", {
                "ballast": self.ours(name, "large.safetensors", threads=threads, cold=True), "dd iflag=direct": dd},
                target, size=self.size, threads=threads)
        for work, words in (("`verify --level content`", ("verify", "--level", "content", "--threads", "2")),
                            ("`hash`", ("hash", "--threads", "2"))):
            yield Row(f"cold: {work}, whole process, {self.size_mib} MiB", {
                "ballast": self.process(self.programs.ballast, *words, large, cold=("large.safetensors",)),
                "dd iflag=direct": dd}, target, size=self.size, threads=2)
