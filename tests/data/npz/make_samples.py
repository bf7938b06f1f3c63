"""Writes the samples of this folder, and expected.json with what NumPy reads from them. See README.md."""
import hashlib
import io
import json
import os
import sys
import zipfile

import numpy as np

OUT = sys.argv[1] if len(sys.argv) > 1 else "."
expected = {}

OUR_NAMES = {
    "f2": "f16", "f4": "f32", "f8": "f64", "f16": "f128", "c8": "c64", "c16": "c128", "c32": "c256",
    "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64", "b1": "bool",
}


def canonical(array):
    """The bytes as Ballast gives them: row-major; numbers little-endian, everything else as stored."""
    if array.dtype.str[0] == ">" and array.dtype.str[1:] in OUR_NAMES:
        array = array.byteswap()
    return np.ascontiguousarray(array).tobytes()


def describe(name, array):
    kind = array.dtype.str[1:]
    numeric = kind in OUR_NAMES and array.dtype.names is None
    descr = np.lib.format.dtype_to_descr(array.dtype)
    scheme = "" if numeric else descr if isinstance(descr, str) else repr(descr)
    if len(scheme) > 1000:
        scheme = "sha256:" + hashlib.sha256(scheme.encode()).hexdigest()
    return {
        "name": name,
        "dtype": OUR_NAMES[kind] if numeric else "opaque",
        "scheme": scheme,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(canonical(array)).hexdigest(),
    }


def note(file, arrays):
    expected[file] = [describe(name, array) for name, array in arrays.items()]


def path(file):
    return os.path.join(OUT, file)


def savez(file, arrays, save=np.savez):
    with open(path(file), "wb") as f:
        save(f, **arrays)
    note(file, arrays)


def values(dtype, shape):
    count = int(np.prod(shape, dtype=int))
    plain = np.arange(count).reshape(shape)
    little = np.dtype(dtype).newbyteorder("<")
    array = (plain - 1.5j * plain if little.kind == "c" else plain / 4 - 1 if little.kind == "f" else plain).astype(little)
    if little.str in ("<f16", "<c32"):  # an x87 number has 10 bytes; the other 6 are whatever was in memory
        array.view("u1").reshape(-1, 16)[:, 10:] = 0
    return array.byteswap().view(dtype) if np.dtype(dtype).str[0] == ">" else array


numeric = ["f2", "f4", "f8", "f16", "c8", "c16", "c32", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
savez("dtypes.npz", {f"t_{np.dtype(d).str[1:]}": values(d, (2, 3)) for d in numeric})
savez("big_endian.npz", {f"t_{np.dtype(d).str[1:]}": values(">" + d, (2, 3)) for d in numeric if d != "?"})
savez("fortran.npz", {
    "matrix": np.asfortranarray(values("f4", (3, 5))),
    "cube": np.asfortranarray(values("i2", (2, 3, 4))),
    "big_endian": np.asfortranarray(values(">f8", (4, 2))),
    "text": np.asfortranarray(np.array([["ab", "c"], ["def", ""]])),
})
savez("shapes.npz", {
    "scalar": np.array(2.5, "f4"),
    "none": np.zeros((0,), "f4"),
    "no_rows": np.zeros((0, 3), "i8"),
    "no_columns": np.zeros((4, 0, 2), "u1"),
    "rank_7": values("u1", (1, 2, 1, 3, 1, 2, 1)),
    "long": values("i2", (1000,)),
})
savez("names.npz", {
    "": values("u1", (1,)),
    "encoder/layer.0/weight": values("f4", (2,)),
    "gewicht_größe": values("f4", (2,)),
    "重み": values("i4", (3,)),
    "a b;c'd\"e": values("i4", (1,)),
    "x.npy": values("i4", (2,)),
})
savez("opaque.npz", {
    "text": np.array(["weight", "größe", ""]),
    "text_be": np.array(["weight", "bias"], dtype=">U6"),
    "bytes": np.array([b"ab", b"abcd"]),
    "dates": np.array(["2020-01-01", "1999-12-31"], dtype="M8[D]"),
    "spans": np.array([1, 2, 3], dtype=">m8[25us]"),
    "void": np.array([b"abc", b"defg"], dtype="V4"),
    "records": np.array([(1.5, 2, [1, 2]), (2.5, 3, [3, 4])], dtype=[("a", "<f4"), ("b", ">i4"), ("c", "<i2", (2,))]),
    "nested": np.zeros((2, 2), dtype=[(("a title", "a"), [("x", "<f8"), ("y'", "u1", (2, 3))]), ("b", "S3")]),
    "padded": np.zeros(3, dtype=np.dtype([("a", "u1"), ("b", "<f8")], align=True)),
})
savez("compressed.npz", {
    "zeros": np.zeros((100, 100), "f4"),
    "ramp": values("i4", (50, 40)),
    "fortran": np.asfortranarray(values(">f4", (30, 20))),
    "scalar": np.array(7, "i8"),
    "none": np.zeros((0, 2), "f4"),
}, np.savez_compressed)
savez("empty.npz", {})


class Unseekable(io.RawIOBase):
    """What a pipe looks like to zipfile, which then writes data descriptors."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def npy_bytes(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version)
    return buffer.getvalue()


arrays = {"a": values("f4", (4, 3)), "b": values("i8", (5,))}
for method, file in ((zipfile.ZIP_STORED, "streamed_stored.npz"), (zipfile.ZIP_DEFLATED, "streamed_deflated.npz")):
    with open(path(file), "wb") as f, zipfile.ZipFile(Unseekable(f), "w", method) as z:
        for name, array in arrays.items():
            z.writestr(zipfile.ZipInfo(name + ".npy"), npy_bytes(array), compress_type=method)
    note(file, arrays)
with open(path("streamed_zip64.npz"), "wb") as f, zipfile.ZipFile(Unseekable(f), "w") as z:
    for name, array in arrays.items():
        with z.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
            member.write(npy_bytes(array))
note("streamed_zip64.npz", arrays)

with zipfile.ZipFile(path("foreign.npz"), "w") as z:  # a comment, a date, a folder, a member that is no array
    z.comment = b"made by hand"
    z.mkdir("block") if hasattr(z, "mkdir") else z.writestr(zipfile.ZipInfo("block/"), b"")
    z.writestr(zipfile.ZipInfo("block/a.npy", (2024, 2, 29, 12, 30, 0)), npy_bytes(arrays["a"]))
    z.writestr(zipfile.ZipInfo("README.txt"), b"hello\n", compress_type=zipfile.ZIP_DEFLATED)
note("foreign.npz", {"block/a": arrays["a"], "README.txt": np.frombuffer(b"hello\n", "u1")})

data = bytearray(open(path("names.npz"), "rb").read())  # what the same call writes on Windows
at = data.find(b"PK\x01\x02")
while at >= 0:
    data[at + 5] = 0
    at = data.find(b"PK\x01\x02", at + 1)
open(path("windows.npz"), "wb").write(data)
expected["windows.npz"] = expected["names.npz"]


def save_npy(file, data, array):
    open(path(file), "wb").write(data)
    note(file, {"arr_0": array})


matrix = values("f4", (3, 2))
save_npy("matrix.npy", npy_bytes(matrix), matrix)
save_npy("scalar.npy", npy_bytes(np.array(3.5)), np.array(3.5))
save_npy("fortran.npy", npy_bytes(np.asfortranarray(matrix)), matrix)
save_npy("big_endian.npy", npy_bytes(matrix.astype(">f4")), matrix)
save_npy("version_2.npy", npy_bytes(matrix, (2, 0)), matrix)
many = np.zeros(1, dtype=[(f"field_{i:04}", "<f4") for i in range(3000)])  # a header above 64 KiB needs version 2
save_npy("many_fields.npy", npy_bytes(many), many)
named = np.zeros(2, dtype=[("größe", "<f4")])
save_npy("latin1_field.npy", npy_bytes(named), named)
named = np.zeros(2, dtype=[("重み", "<f4")])
save_npy("version_3.npy", npy_bytes(named), named)
# NumPy before 1.23: no room for a growing axis, and before 1.14 a multiple of 16 instead of 64.
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
for align, file in ((64, "numpy_1_14.npy"), (16, "numpy_1_7.npy")):
    pad = align - (10 + len(text) + 1) % align
    header = text + b" " * pad + b"\n"
    save_npy(file, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + matrix.tobytes(), matrix)
text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L), }\n"  # Python 2 on some systems
save_npy("python_2.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + matrix.tobytes(), matrix)

objects = np.array([{"a": 1}, None], dtype=object)  # refused: a pickle
open(path("objects.npy"), "wb").write(npy_bytes(objects))
np.savez(path("objects.npz"), good=matrix, bad=objects)

with open(path("expected.json"), "w") as f:
    json.dump(expected, f, indent=1, ensure_ascii=False)
    f.write("\n")
