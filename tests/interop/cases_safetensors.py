"""safetensors: the reference library, both ways, and sharded sets."""

import ctypes
import json

import numpy as np
import safetensors
from safetensors import TensorSpec
from safetensors.numpy import load_file, save_file

from cases_numpy import noise
from harness import Tensor, compare, of_array, of_arrays, require, same_bytes, sha256

NUMPY_TYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
               "bool", "complex64"]
# Types NumPy has no word for: the library's name, its name in the file, ours, bytes of four elements.
OTHER_TYPES = [
    ("bfloat16", "BF16", "bf16", 8), ("float8_e4m3fn", "F8_E4M3", "f8_e4m3", 4), ("float8_e5m2", "F8_E5M2", "f8_e5m2", 4),
    ("float8_e8m0fnu", "F8_E8M0", "f8_e8m0", 4), ("float8_e4m3fnuz", "F8_E4M3FNUZ", "f8_e4m3fnuz", 4),
    ("float8_e5m2fnuz", "F8_E5M2FNUZ", "f8_e5m2fnuz", 4),
]
METADATA = {"format": "np", "ключ": "значение", "empty": "", "text": "line\nwith \"quotes\" and \\ and \u0001"}


def tensor_sets():
    return {
        "every dtype of NumPy": {f"t.{d}": noise(d, (3, 5)) for d in NUMPY_TYPES},
        "odd lengths, so that payloads are unaligned": {f"{d}.{n}": noise(d, (n,)) for n in (1, 3, 7)
                                                        for d in ("uint8", "float16", "float64", "bool")},
        "scalar and empty shapes": {"scalar": noise("float32", ()), "empty": noise("int64", (0,)),
                                    "empty_middle": noise("float16", (2, 0, 3)), "rank_7": noise("int8", (1, 2, 1, 3, 1, 2, 1))},
        "awkward names": {n: noise("float32", (2,), i) for i, n in enumerate(
            ["a/b", "with space", "слой", "🦀", "quote\"", "back\\slash", "tab\t", "x" * 500])},
        "nothing": {},
        "3000 tensors": {f"layers.{i}.weight": noise("float32", (i % 4,), i) for i in range(3000)},
    }


def raw_specs():
    """Buffers of every type that NumPy lacks; the caller keeps them alive while the library writes."""
    buffers, specs, expected = [], {}, {}
    for library, in_file, ours, size in OTHER_TYPES:
        data = noise("uint8", (size,), len(buffers)).tobytes()
        buffers.append(ctypes.create_string_buffer(data, size))
        specs[f"t.{in_file}"] = TensorSpec(dtype=library, shape=[2, 2], data_ptr=ctypes.addressof(buffers[-1]), data_len=size)
        expected[f"t.{in_file}"] = (in_file, Tensor(ours, (2, 2), sha256(data)))
    # Two 4-bit values in a byte: the library counts storage elements, the file counts values.
    data = noise("uint8", (4,), 99).tobytes()
    buffers.append(ctypes.create_string_buffer(data, 4))
    specs["t.F4"] = TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 2], data_ptr=ctypes.addressof(buffers[-1]), data_len=4)
    expected["t.F4"] = ("F4", Tensor("f4", (2, 4), sha256(data)))
    return buffers, specs, expected


def deserialized(path):
    """What the library's own parser sees: {name: (dtype in the file, shape, digest)}."""
    entries = safetensors.deserialize(path.read_bytes())
    return {name: (t["dtype"], tuple(t["shape"]), sha256(bytes(t["data"]))) for name, t in entries}


def metadata_of(path):
    with safetensors.safe_open(path, framework="np") as file:
        return file.metadata()


def run(suite):
    sets = tensor_sets()
    for what, tensors in sets.items():
        read_and_write(suite, what, tensors)
    other_types(suite)
    with_metadata(suite, sets["every dtype of NumPy"])
    shards_of_ours(suite)
    shards_of_theirs(suite)


def read_and_write(suite, what, tensors):
    theirs, npz = suite.folder / "theirs.safetensors", suite.folder / "source.npz"
    save_file(tensors, theirs)
    with suite.case("read", f"save_file: {what}"):
        report = suite.ballast.inspect(theirs)
        require(report["format"] == "safetensors", f"taken for {report['format']}")
        compare(of_arrays(tensors), suite.ballast.tensors(theirs))
        suite.ballast.verify(theirs)
    with suite.case("write", f"their file again, byte for byte: {what}"):
        same_bytes(suite.ballast.convert(theirs, suite.folder / "again.safetensors", "--overwrite"), theirs)
    if any("/" in name or "\\" in name for name in tensors):
        return  # NumPy does not promise to keep these as member names
    with suite.case("write", f"from an npz in another order: load_file reads it, save_file would write it so: {what}"):
        names = sorted(tensors, key=lambda name: sha256(name.encode()))
        np.savez(npz, **{name: tensors[name] for name in names})
        ours = suite.ballast.convert(npz, suite.folder / "ours.safetensors", "--overwrite")
        compare(of_arrays(tensors), of_arrays(load_file(ours)))
        reference = suite.folder / "reference.safetensors"
        metadata = metadata_of(ours) or None
        require(not metadata or len(metadata) == 1, "more than one entry: the library's order would be random")
        save_file(tensors, reference, metadata=metadata)
        same_bytes(ours, reference)


def other_types(suite):
    buffers, specs, expected = raw_specs()
    theirs = suite.folder / "types.safetensors"
    safetensors.serialize_file(specs, theirs)
    with suite.case("read", "types that NumPy has no word for"):
        compare({name: t for name, (_, t) in expected.items()}, suite.ballast.tensors(theirs))
    with suite.case("write", "types that NumPy has no word for, byte for byte"):
        ours = suite.ballast.convert(theirs, suite.folder / "types_again.safetensors", "--overwrite")
        compare({name: (d, t.shape, t.sha256) for name, (d, t) in expected.items()}, deserialized(ours))
        same_bytes(ours, theirs)
    del buffers


def with_metadata(suite, tensors):
    theirs = suite.folder / "metadata.safetensors"
    save_file(tensors, theirs, metadata=METADATA)
    with suite.case("read", "metadata"):
        compare(METADATA, suite.ballast.inspect(theirs)["metadata"])
    with suite.case("write", "metadata"):
        ours = suite.ballast.convert(theirs, suite.folder / "metadata_again.safetensors", "--overwrite")
        compare(METADATA, metadata_of(ours))
        same_bytes(ours, theirs)


def shards_of_ours(suite):
    tensors = {f"layers.{i}.weight": noise("float32", (16, 16), i) for i in range(40)}
    source = suite.folder / "whole.safetensors"
    save_file(tensors, source, metadata={"format": "pt"})
    folder = suite.folder / "sharded"
    with suite.case("write", "--shard-size: shards loaded one by one along the index"):
        suite.ballast.convert(source, folder / "model.safetensors", "--shard-size", "10KiB", "--overwrite")
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        require(len(files) > 3, f"only {len(files)} shards: {files}")
        shards = {file: load_file(folder / file) for file in files}
        compare(of_arrays(tensors), {name: of_array(shards[file][name]) for name, file in index["weight_map"].items()})
        require(sum(map(len, shards.values())) == len(tensors), "a shard holds tensors the index does not name")
        total = sum(a.nbytes for a in tensors.values())
        require(index["metadata"]["total_size"] == total, f"total_size {index['metadata']}, expected {total}")
    with suite.case("write", "shards joined again are the file they came from, byte for byte"):
        same_bytes(suite.ballast.convert(folder, suite.folder / "joined.safetensors", "--overwrite"), source)


def shards_of_theirs(suite):
    folder = suite.folder / "their_shards"
    folder.mkdir(exist_ok=True)
    tensors = {f"h.{i}.w": noise("float16", (8, 8), i) for i in range(12)}
    weight_map = {}
    for part in range(3):
        file = f"model-{part + 1:05d}-of-00003.safetensors"
        chosen = {name: a for i, (name, a) in enumerate(tensors.items()) if i % 3 == part}
        save_file(chosen, folder / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in chosen})
    index = {"metadata": {"total_size": sum(a.nbytes for a in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    for what, path in (("folder", folder), ("index", folder / "model.safetensors.index.json")):
        with suite.case("read", f"shards written by save_file, opened by their {what}"):
            compare(of_arrays(tensors), suite.ballast.tensors(path))
