"""What every peer's cases share: running the program, describing tensors, comparing, counting."""

import contextlib
import hashlib
import json
import shlex
import subprocess
import traceback
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COMMAND_TIMEOUT_S = 120


class Mismatch(Exception):
    """A case that did not hold; the text says what was expected and what was there."""


def require(condition, text):
    if not condition:
        raise Mismatch(text)


# ---------------------------------------------------------------- tensors

NUMPY_DTYPES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "c64",
    "complex128": "c128", "longdouble": "f128", "clongdouble": "c256",
}


@dataclass(frozen=True)
class Tensor:
    """A tensor by its digest. `dtype` is in the program's words."""

    dtype: str
    shape: tuple
    sha256: str

    def __str__(self):
        return f"{self.dtype}{list(self.shape)} {self.sha256[:12]}"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def canonical_bytes(array):
    """Little-endian, row-major, bit for bit: no conversion that could touch a NaN."""
    array = np.asarray(array)
    swapped = array.dtype.byteorder == ">"
    return (array.byteswap() if swapped else array).tobytes(order="C")


def native_dtype(dtype):
    return np.dtype(dtype).newbyteorder("=")


def dtype_word(dtype):
    for name, word in NUMPY_DTYPES.items():
        if native_dtype(dtype) == np.dtype(name):
            return word
    raise KeyError(f"no word for {dtype}")


def of_array(array):
    array = np.asarray(array)
    return Tensor(dtype_word(array.dtype), array.shape, sha256(canonical_bytes(array)))


def of_arrays(arrays):
    return {name: of_array(array) for name, array in arrays.items()}


def compare(expected, seen):
    """Both {name: value}: the same names with equal values."""
    problems = [f"missing: {name!r}" for name in expected if name not in seen]
    problems += [f"not asked for: {name!r}" for name in seen if name not in expected]
    for name in expected:
        if name in seen and seen[name] != expected[name]:
            problems.append(f"{name!r}: expected {expected[name]}, got {seen[name]}")
    shown = problems[:5] + ([f"and {len(problems) - 5} more"] if len(problems) > 5 else [])
    require(not problems, "; ".join(shown))


def same_bytes(path, reference):
    ours, theirs = Path(path).read_bytes(), Path(reference).read_bytes()
    if ours == theirs:
        return
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    raise Mismatch(f"bytes differ from {Path(reference).name}'s: sizes {len(ours)} and {len(theirs)}, first at {at}: "
                   f"{ours[at:at + 16].hex()} against {theirs[at:at + 16].hex()}")


# ---------------------------------------------------------------- programs

class Ballast:
    def __init__(self, program):
        self.program = str(program)

    def run(self, *arguments, status=0):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
        if done.returncode != status:
            said = (done.stderr or done.stdout).strip()[-600:]
            raise Mismatch(f"`{shlex.join(command)}` ended with {done.returncode}, not {status}: {said}")
        return done

    def inspect(self, path, *flags):
        return json.loads(self.run("inspect", "--json", "--hash", path, *flags).stdout)

    def tensors(self, path):
        return {t["name"]: Tensor(t["dtype"], tuple(t["shape"]), t["sha256"]) for t in self.inspect(path)["tensors"]}

    def convert(self, source, destination, *flags):
        Path(destination).parent.mkdir(parents=True, exist_ok=True)
        self.run("convert", source, destination, *flags)
        return destination

    def verify(self, path):
        self.run("verify", path)


def run_peer(program, verb, path):
    """A Burn program's report; Mismatch when Burn refused."""
    command = [str(program), verb, str(path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
    report = json.loads(done.stdout) if done.stdout.strip() else {"error": done.stderr.strip()}
    require(done.returncode == 0, f"`{shlex.join(command)}`: {report.get('error')}")
    return report


# ---------------------------------------------------------------- cases

class Suite:
    """The cases of one peer. Every case is one line; one that fails never stops the others."""

    def __init__(self, peer, ballast, folder, results, verbose=False):
        self.peer, self.ballast, self.results, self.verbose = peer, ballast, results, verbose
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def case(self, direction, what):
        """`direction` is "read" (their file, our reader) or "write" (our file, their reader)."""
        problem = None
        try:
            yield
        except Mismatch as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, this case did not hold
            problem = f"{type(error).__name__}: {error}"
            if self.verbose:
                traceback.print_exc()
        self.results.append(problem is None)
        word = "ok  " if problem is None else "FAIL"
        print(f"{word} {self.peer:<12} {direction:<5} {what}" + (f"\n       {problem}" if problem else ""), flush=True)
