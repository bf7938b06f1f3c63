"""Burn: Burnpack files of the newest crate and of 0.20, both ways, and old files made readable for new Burn."""

import ctypes
import json
import math
import re
from pathlib import Path

import numpy as np
import safetensors
from safetensors import TensorSpec

from cases_numpy import noise
from harness import Mismatch, Tensor, compare, of_array, require, run_peer, same_bytes, sha256

FIXTURES = Path(__file__).resolve().parent.parent / "data" / "burnpack"
NEWEST, OLD = "burn-0.23", "burn-0.20"
WORDS = {"F64": "f64", "F32": "f32", "Flex32": "flex32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "I16": "i16",
         "I8": "i8", "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "Bool": "bool", "Bool(Native)": "bool",
         "Bool(U8)": "bool", "Bool(U32)": "bool32", "QFloat": "qfloat"}
VALUE_BITS = {"Q8F": 8, "Q8S": 8, "E5M2": 8, "E4M3": 8, "Q4F": 4, "Q4S": 4, "E2M1": 4, "Q2F": 2, "Q2S": 2}
# Tensors of the Burn programs whose types safetensors has no word for.
LACKING = r"^quant|Flex32|Bool\(U32\)"
# Words of the newest generation that 0.20 has no word for.
NOT_IN_OLD = re.compile(r"Bool\(U|Lookup|BlockTensor|tensor: Some\(\w+\), block: Some")


class Burn:
    def __init__(self, name, program, target):
        self.name, self.program, self.target = name, program, target

    def read(self, path):
        return run_peer(self.program, "read", path)

    def write(self, path):
        return run_peer(self.program, "write", path)


def run(suite, newest_program, old_program):
    newest = Burn("burn newest", newest_program, NEWEST)
    old = Burn("burn 0.20", old_program, OLD)
    files = {}
    for burn in (newest, old):
        suite.peer = burn.name
        files[burn] = burns_own_file(suite, burn)
    from_other_formats(suite, (newest, old))
    across_generations(suite, newest, old, files)
    fixtures(suite, newest, old)


# ---------------------------------------------------------------- comparing

def plain(reported):
    """What digests can tell, in words that all generations share: {name: (Tensor, param id)}."""
    return {name: (Tensor(WORDS[t["dtype"]], tuple(t["shape"]), t["sha256"]), t["param_id"])
            for name, t in reported.items()}


def ours(ballast, path):
    return {t["name"]: (Tensor(t["dtype"].split(":")[0], tuple(t["shape"]), t["sha256"]), t.get("param_id"))
            for t in ballast.inspect(path)["tensors"]}


def scheme(quant):
    return {key: quant[key] for key in ("value", "store", "mode", "tensor", "block")} if quant else None


def schemes(reported):
    return {name: scheme(t["quant"]) for name, t in reported.items() if t["quant"]}


def fits(reported):
    """Burn must be able to use each quantised payload, not only to hand it over."""
    for name, t in reported.items():
        if t["quant"]:
            length = t["quant"]["length"]
            require(length == t["byte_len"], f"{name}: Burn wants {length} bytes for the scheme, there are {t['byte_len']}")


def decoded_alike(before, after):
    for name, t in before.items():
        if t["quant"] and t["quant"]["decoded"] and name in after:
            there = after[name]["quant"]["decoded"]
            require(there == t["quant"]["decoded"], f"{name}: Burn's own decoder now gives other values or scales")


# ---------------------------------------------------------------- files of Burn itself

def burns_own_file(suite, burn):
    path = suite.folder / f"{burn.target}.bpk"
    path.unlink(missing_ok=True)
    made = burn.write(path)
    with suite.case("read", "every dtype, shape, id and scheme it can write"):
        report = suite.ballast.inspect(path)
        require(report["format"] == "burnpack", f"taken for {report['format']}")
        compare(plain(made["tensors"]), ours(suite.ballast, path))
        require([t["name"] for t in report["tensors"]] == made["order"], "order of the tensors on disk")
        compare(made["metadata"], {k: v for k, v in report["metadata"].items() if k not in made["scalars"]})
        suite.ballast.verify(path)
    with suite.case("read", "typed scalars"):
        require(set(made["scalars"]) == set(report.get("scalars") or {}), "the scalars shown are not those written")
    with suite.case("write", "its file again, byte for byte"):
        again = suite.ballast.convert(path, suite.folder / "again.bpk", "--overwrite")
        same_bytes(again, path)
        compare(made["tensors"], burn.read(again)["tensors"])
    with suite.case("write", f"its file with --target {burn.target}, byte for byte"):
        same_bytes(suite.ballast.convert(path, suite.folder / "aimed.bpk", "--target", burn.target, "--overwrite"), path)
    with suite.case("write", "burnpack > safetensors > burnpack without the types that safetensors lacks"):
        middle = suite.ballast.convert(path, suite.folder / "middle.safetensors", "--exclude", LACKING, "--overwrite")
        back = suite.ballast.convert(middle, suite.folder / "back.bpk", "--target", burn.target, "--overwrite")
        seen = burn.read(back)
        compare({k: t for k, t in made["tensors"].items() if not re.search(LACKING, k)}, seen["tensors"])
        if seen["metadata"] is not None:
            compare(made["metadata"], without_origin(seen["metadata"]))
            compare(made["scalars"], seen["scalars"])
    return path, made


def without_origin(metadata):
    return {key: value for key, value in metadata.items() if not key.startswith("ballast.")}


# ---------------------------------------------------------------- our files from other formats

def other_sources(folder):
    """{format: (path, {name: Tensor})}."""
    types = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
    arrays = {f"t.{d}": noise(d, (3, 5)) for d in types}
    arrays |= {"scalar": noise("float32", ()), "empty": noise("float32", (2, 0, 3)), "слой.вес": noise("float32", (64,)),
               "fortran": np.asfortranarray(noise("float32", (4, 6))), "last": noise("uint8", (257,))}
    expected = {name: of_array(a) for name, a in arrays.items()}
    np.savez(folder / "source.npz", **arrays)

    buffers = {name: ctypes.create_string_buffer(a.tobytes(order="C"), max(a.nbytes, 1)) for name, a in arrays.items()}
    specs = {name: TensorSpec(dtype=str(a.dtype), shape=list(a.shape), data_ptr=ctypes.addressof(buffers[name]), data_len=a.nbytes)
             for name, a in arrays.items()}
    half = noise("uint8", (30,), 5).tobytes()
    buffers["t.bfloat16"] = ctypes.create_string_buffer(half, len(half))
    specs["t.bfloat16"] = TensorSpec(dtype="bfloat16", shape=[3, 5], data_ptr=ctypes.addressof(buffers["t.bfloat16"]),
                                     data_len=len(half))
    safetensors.serialize_file(specs, folder / "source.safetensors", metadata={"format": "pt", "note": "нота"})
    with_half = expected | {"t.bfloat16": Tensor("bf16", (3, 5), sha256(half))}
    return {"npz": (folder / "source.npz", expected), "safetensors": (folder / "source.safetensors", with_half)}


def from_other_formats(suite, burns):
    for format_name, (source, expected) in other_sources(suite.folder).items():
        for burn in burns:
            suite.peer = burn.name
            with suite.case("write", f"from {format_name}"):
                path = suite.ballast.convert(source, suite.folder / "made.bpk", "--target", burn.target, "--overwrite")
                seen = burn.read(path)["tensors"]
                compare(expected, {name: t for name, (t, _) in plain(seen).items()})
        suite.peer = burns[0].name
        with suite.case("write", f"from {format_name}, without naming a target"):
            path = suite.ballast.convert(source, suite.folder / "made.bpk", "--overwrite")
            compare(expected, {name: t for name, (t, _) in plain(burns[0].read(path)["tensors"]).items()})


# ---------------------------------------------------------------- one generation's file for the other

def across_generations(suite, newest, old, files):
    old_path, old_made = files[old]
    rest = {name: t for name, t in old_made["tensors"].items() if "ragged" not in name}
    suite.peer = newest.name
    with suite.case("write", "0.20's file made readable: old Bool, every old scheme"):
        path = suite.ballast.convert(old_path, suite.folder / "raised.bpk", "--target", NEWEST, "--exclude", "ragged", "--overwrite")
        seen = newest.read(path)
        compare(plain(rest), plain(seen["tensors"]))
        compare(schemes(rest), schemes(seen["tensors"]))
        fits(seen["tensors"])
        decoded_alike(rest, seen["tensors"])
        compare(old_made["metadata"], without_origin(seen["metadata"]))
    with suite.case("write", "0.20's packing across rows: the same values, or refused, never garbage"):
        command = ("convert", old_path, suite.folder / "ragged.bpk", "--target", NEWEST, "--only", "ragged", "--overwrite")
        try:
            suite.ballast.run(*command)
        except Mismatch:
            suite.ballast.run(*command, status=2)
        else:
            seen = newest.read(suite.folder / "ragged.bpk")["tensors"]
            fits(seen)
            decoded_alike(old_made["tensors"], seen)

    path, made = files[newest]
    refused = {name: why for name, t in made["tensors"].items() if (why := why_not_old(t))}
    suite.peer = old.name
    with suite.case("write", "the newest file made readable: new Bool, every scheme that 0.20 has"):
        exclude = "^(" + "|".join(re.escape(name) for name in refused) + ")$"
        lowered = suite.ballast.convert(path, suite.folder / "lowered.bpk", "--target", OLD, "--exclude", exclude, "--overwrite")
        rest = {name: t for name, t in made["tensors"].items() if name not in refused}
        seen = old.read(lowered)["tensors"]
        compare(plain(rest), plain(seen))
        compare(schemes(rest), schemes(seen))
        fits(seen)
        decoded_alike(seen, rest)
    for name, why in refused.items():
        with suite.case("write", f"named and refused, because {why}: {name}"):
            done = suite.ballast.run("convert", path, suite.folder / "refused.bpk", "--target", OLD, "--only",
                                     f"^{re.escape(name)}$", "--overwrite", status=2)
            require(name in done.stderr, f"the tensor is not named: {done.stderr.strip()!r}")


def why_not_old(t):
    """None when 0.20 can hold the tensor, with the same bytes meaning the same."""
    quant = t["quant"]
    if t["dtype"] == "Bool(U32)":
        return "0.20 has no such Bool"
    if not quant:
        return None
    if quant["mode"] != "Symmetric":
        return "0.20 has no such mode"
    if quant["tensor"] and quant["block"]:
        return "0.20 has no two levels of scales"
    bits = VALUE_BITS[quant["value"]]
    if quant["store"] == "Native":
        if bits < 8:
            return "0.20 counts less than a byte for a value"
        return "0.20 fills values up to whole words" if math.prod(t["shape"]) % 4 else None
    store, packed_dim = re.fullmatch(r"(\w+)\((\d+)\)", quant["store"]).groups()
    per_word = 32 // bits if store == "PackedU32" else 2
    return "0.20 packs across rows" if t["shape"][-1 - int(packed_dim)] % per_word else None


# ---------------------------------------------------------------- genuine files of every generation

def dims(text):
    sizes = [int(d) for d in re.findall(r"\d+", text)]
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    return sizes


def scheme_of_text(text):
    """The scheme in Rust's debug text of any generation, in the words of the Burn programs' reports."""
    if not text.startswith("QFloat"):
        return None
    out = {key: re.search(rf"{key}: (\w+(?:\(\d+\))?)", text).group(1) for key in ("value", "store", "mode")}
    size = re.search(r"BlockSize\(\[([\d, ]*)\]\)", text)
    param = re.search(r"param: (\w+)", text)
    if param:
        two_levels = re.search(r"global: (\w+)", text)
        tensor = two_levels.group(1) if two_levels else None if size else param.group(1)
        block_dtype = param.group(1)
    else:
        level = re.search(r"tensor: Some\((\w+)\)", text)
        tensor = level.group(1) if level else None if size else "F32"
        block_dtype = size and re.search(r"dtype: (\w+)", text).group(1)
    out["tensor"] = tensor
    out["block"] = {"size": dims(size.group(1)), "dtype": block_dtype} if size else None
    return out


def stated(sidecar):
    return {name: (Tensor(WORDS[t["dtype"].split("(Quant")[0]], tuple(t["shape"]), t["sha256"]), t["param_id"])
            for name, t in sidecar["tensors"].items()}


def stated_scalars(sidecar):
    out = {}
    for name, value in (sidecar.get("scalars") or {}).items():
        kind, inner = next(iter(value.items()))
        out[name] = {kind: inner["bits"] if kind == "Float" else inner}
    return out


def fixtures(suite, newest, old):
    found = sorted(FIXTURES.glob("*/*.bpk"))
    suite.peer = newest.name
    with suite.case("read", "the genuine files of every generation are there"):
        versions = {path.parent.name for path in found}
        needed = {"0.19.1", "0.20.1", "0.21.0", "0.22.0-pre.2", "0.22.1", "0.23.0-pre.1"}
        require(needed <= versions, f"no files of {sorted(needed - versions)} under {FIXTURES}")
    for path in found:
        sidecar = json.loads(path.with_name(path.name + ".json").read_text())
        what = f"{path.parent.name}/{path.name}"
        suite.peer = newest.name
        with suite.case("write", f"{what} rewritten for the newest reader"):
            raise_fixture(suite, newest, old, path, sidecar)
        suite.peer = old.name
        with suite.case("write", f"{what} rewritten for the 0.20 reader"):
            lower_fixture(suite, old, path, sidecar)


def raise_fixture(suite, newest, old, path, sidecar):
    seen = newest.read(suite.ballast.convert(path, suite.folder / "fixture.bpk", "--target", NEWEST, "--overwrite"))
    compare(stated(sidecar), plain(seen["tensors"]))
    compare({n: s for n, t in sidecar["tensors"].items() if (s := scheme_of_text(t["dtype"]))}, schemes(seen["tensors"]))
    # One scheme of these files was given a payload shorter than Burn's own rule, which its writer does not check.
    fits({name: t for name, t in seen["tensors"].items() if not name.endswith("two_level_2x16")})
    compare(sidecar.get("metadata") or {}, without_origin(seen["metadata"]))
    compare(stated_scalars(sidecar), seen["scalars"])
    if path.parent.name in ("0.20.1", "0.21.0") and path.stem.startswith("quant"):
        decoded_alike(old.read(path)["tensors"], seen["tensors"])


def lower_fixture(suite, old, path, sidecar):
    destination = suite.folder / "fixture_old.bpk"
    if any(NOT_IN_OLD.search(t["dtype"]) for t in sidecar["tensors"].values()):
        suite.ballast.run("convert", path, destination, "--target", OLD, "--overwrite", status=2)
        return
    seen = old.read(suite.ballast.convert(path, destination, "--target", OLD, "--overwrite"))["tensors"]
    compare(stated(sidecar), plain(seen))
    compare({n: s for n, t in sidecar["tensors"].items() if (s := scheme_of_text(t["dtype"]))}, schemes(seen))
