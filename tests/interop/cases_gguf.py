"""GGUF: gguf-py, both ways: values and lists of every type, quantised tensors, alignments, byte orders, parts."""

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter

from cases_numpy import noise
from harness import Tensor, compare, of_array, require, same_bytes, sha256

PLAIN = ["float64", "float32", "float16", "int64", "int32", "int16", "int8"]
# Those that gguf-py can quantise to.
QUANTISED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "TQ1_0", "TQ2_0", "MXFP4"]
VALUES = {
    "general.name": ("text", "žluťoučký kůň 🐎\n\t\"quoted\""), "t.u8": ("uint8", 255), "t.i8": ("int8", -128), "t.u16": ("uint16", 65535),
    "t.i16": ("int16", -32768), "t.u32": ("uint32", 2**32 - 1), "t.i32": ("int32", -2**31), "t.f32": ("float32", 0.5),
    "t.u64": ("uint64", 2**64 - 1), "t.i64": ("int64", -2**63), "t.f64": ("float64", 0.1), "t.bool": ("bool", True),
    "a.text": ("array", ["<s>", "", "日本語", "x" * 300]), "a.i32": ("array", [1, -2, 3]), "a.f32": ("array", [0.5, -1.5]),
    "a.bool": ("array", [True, False]), "a.long": ("array", [f"token {i}" for i in range(5000)]),
}


def add_values(writer):
    for key, (kind, value) in VALUES.items():
        add = {"text": writer.add_string, "array": writer.add_array}.get(kind) or getattr(writer, f"add_{kind}")
        add(key, value)


def write_theirs(path, tensors, *, alignment=None, endianess=GGUFEndian.LITTLE, quantised=(), **options):
    """`tensors` in NumPy's types; `quantised` are (name, type, shape, bytes)."""
    writer = GGUFWriter(path, "test", endianess=endianess, **options)
    if alignment:
        writer.add_custom_alignment(alignment)
    add_values(writer)
    for name, array in tensors.items():
        writer.add_tensor(name, array.copy())
    for name, kind, _, data in quantised:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def quantised_tensors():
    source = (noise("int16", (6, 512)) / 4096).astype(np.float32)
    kinds = [GGMLQuantizationType[name] for name in QUANTISED]
    return [(f"q.{kind.name}", kind, source.shape, gguf.quantize(source, kind)) for kind in kinds]


def of_quantised(quantised):
    return {name: Tensor(kind.name.lower(), tuple(shape), sha256(data.tobytes())) for name, kind, shape, data in quantised}


def values_of_theirs(path):
    """What gguf-py reads, without the pairs that it makes itself: {key: (types, value)}."""
    fields = GGUFReader(path).fields
    own = ("GGUF.", "general.architecture", "general.alignment", "split.", "ballast.")
    return {key: (tuple(field.types), field.contents()) for key, field in fields.items() if not key.startswith(own)}


def tensors_of_theirs(path):
    seen = {}
    for tensor in GGUFReader(path).tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        seen[tensor.name] = Tensor(tensor.tensor_type.name.lower(), shape, sha256(tensor.data.tobytes()))
    return seen


def check_values(report):
    texts, scalars = report["metadata"], report["scalars"]
    for key, (kind, value) in VALUES.items():
        if kind == "text":
            require(texts.get(key) == value, f"{key}: {texts.get(key)!r}")
        elif kind == "array":
            seen = scalars[key]
            require(seen["count"] == len(value), f"{key}: {seen['count']} elements")
            require(seen["values"] == value, f"{key}: {seen['values'][:3]}")
        else:
            require(scalars[key]["value"] == value, f"{key}: {scalars[key]}")


def run(suite):
    tensors = {f"t.{d}": noise(d, (3, 5)) for d in PLAIN} | {
        "rank_4": noise("float32", (2, 3, 4, 5)), "empty": noise("float32", (0, 4)), "one": noise("int32", (1,))}
    quantised = quantised_tensors()
    for alignment in (None, 8, 64, 4096):
        read_and_write(suite, f"alignment {alignment or 'as by default'}", tensors, quantised, alignment)
    big_endian(suite, tensors)
    from_another_format(suite)
    parts(suite)


def read_and_write(suite, what, tensors, quantised, alignment):
    theirs = write_theirs(suite.folder / "theirs.gguf", tensors, quantised=quantised, alignment=alignment)
    with suite.case("read", f"GGUFWriter, every type of value and tensor: {what}"):
        report = suite.ballast.inspect(theirs, "--full")
        require(report["format"] == "gguf", f"taken for {report['format']}")
        check_values(report)
        compare({name: of_array(array) for name, array in tensors.items()} | of_quantised(quantised), suite.ballast.tensors(theirs))
        suite.ballast.verify(theirs)
    with suite.case("write", f"their file again, byte for byte: {what}"):
        same_bytes(suite.ballast.convert(theirs, suite.folder / "again.gguf", "--overwrite"), theirs)


def big_endian(suite, tensors):
    theirs = write_theirs(suite.folder / "big.gguf", tensors, endianess=GGUFEndian.BIG)
    little = write_theirs(suite.folder / "little.gguf", tensors)
    with suite.case("read", "a big-endian file"):
        check_values(suite.ballast.inspect(theirs, "--full"))
        compare({name: of_array(array) for name, array in tensors.items()}, suite.ballast.tensors(theirs))
    with suite.case("write", "a big-endian file again, byte for byte"):
        same_bytes(suite.ballast.convert(theirs, suite.folder / "big_again.gguf", "--overwrite"), theirs)
    with suite.case("write", "--target v3 of a big-endian file is their little-endian one, byte for byte"):
        same_bytes(suite.ballast.convert(theirs, suite.folder / "swapped.gguf", "--target", "v3", "--overwrite"), little)


def from_another_format(suite):
    tensors = {f"blk.{i}.weight": noise("float32", (4, 32 + i), i) for i in range(5)} | {"half": noise("float16", (7,)), "scalar": noise("float32", ())}
    source = suite.folder / "source.npz"
    np.savez(source, **tensors)
    with suite.case("write", "from an npz: GGUFReader reads it"):
        ours = suite.ballast.convert(source, suite.folder / "ours.gguf", "--overwrite")
        compare({name: of_array(array) for name, array in tensors.items()}, tensors_of_theirs(ours))
    theirs = write_theirs(suite.folder / "through.gguf", {"w": noise("float32", (3, 3))})
    with suite.case("write", "through safetensors and back, byte for byte"):
        suite.ballast.convert(theirs, suite.folder / "between.safetensors", "--container-only", "--overwrite")
        same_bytes(suite.ballast.convert(suite.folder / "between.safetensors", suite.folder / "back.gguf", "--overwrite"), theirs)


def parts(suite):
    tensors = {f"part.{i}.weight": noise("float32", (16, 16), i) for i in range(12)}
    folder = suite.folder / "parts"
    folder.mkdir(exist_ok=True)
    write_theirs(folder / "theirs.gguf", tensors, split_max_tensors=5)
    names = sorted(folder.glob("theirs-*-of-*.gguf"))
    expected = {name: of_array(array) for name, array in tensors.items()}
    with suite.case("read", f"{len(names)} parts, opened from the second"):
        check_values(suite.ballast.inspect(names[1], "--full"))
        compare(expected, suite.ballast.tensors(names[1]))
    with suite.case("write", "--shard-size: GGUFReader reads each part"):
        suite.ballast.convert(names[0], folder / "ours.gguf", "--shard-size", "5KiB", "--overwrite")
        ours = sorted(folder.glob("ours-*-of-*.gguf"))
        require(len(ours) == 3, f"{len(ours)} parts")
        seen = {}
        for number, part in enumerate(ours):
            seen |= tensors_of_theirs(part)
            fields = GGUFReader(part).fields
            require(fields["split.no"].contents() == number, f"split.no of {part.name}")
            require(fields["split.count"].types == [GGUFValueType.UINT16], f"type of split.count in {part.name}")
        compare(expected, seen)
        compare(values_of_theirs(names[0]), values_of_theirs(ours[0]))
    with suite.case("write", "their parts, cut alike, byte for byte"):
        for part in ours:
            same_bytes(part, folder / part.name.replace("ours", "theirs"))
