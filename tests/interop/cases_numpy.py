"""NumPy: .npy and .npz files, both ways."""

import io
import zipfile

import numpy as np
from numpy.lib import format as npy_format

from harness import NUMPY_DTYPES, Mismatch, canonical_bytes, compare, native_dtype, of_array, of_arrays, require, same_bytes

SHAPES = {"scalar": (), "one": (1,), "empty": (0,), "empty_rows": (3, 0), "empty_front": (0, 2, 3),
          "rank_7": (1, 2, 1, 3, 1, 2, 1), "rank_32": (1,) * 31 + (2,)}


def noise(dtype, shape, seed=0):
    """Random bits of the type: NaNs with payloads, infinities and subnormals come by themselves."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    rng = np.random.default_rng([seed, count, dtype.num])
    if dtype == np.bool_:
        return rng.integers(0, 2, count).astype(bool).reshape(shape)
    if dtype in (np.dtype("longdouble"), np.dtype("clongdouble")):
        # Ten of the sixteen bytes count on x86; the others are padding, which a copy need not keep.
        return rng.standard_normal(count).astype(dtype).reshape(shape)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)


def every_dtype(shape=(3, 5)):
    return {name: noise(name, shape) for name in NUMPY_DTYPES}


def big_endian(array):
    return array.byteswap().view(array.dtype.newbyteorder(">"))


def array_sets():
    """The contents that every way of saving is tried with."""
    dtypes = every_dtype()
    cube = noise("float32", (4, 3, 5))
    return {
        "every dtype": dtypes,
        "big-endian": {name: big_endian(a) for name, a in dtypes.items() if a.dtype.itemsize > 1},
        "Fortran order": {"matrix": np.asfortranarray(noise("float64", (4, 7))), "cube": np.asfortranarray(cube),
                          "big": np.asfortranarray(big_endian(noise("int32", (3, 2)))), "vector": noise("int8", (9,))},
        "slices and transposes": {"every_other": noise("int16", (9, 8))[::2, ::-1], "transposed": cube.transpose(2, 0, 1)},
        "scalars, empty and high-rank shapes": {f"{k}.{d}": noise(d, s) for k, s in SHAPES.items()
                                                for d in ("float32", "int64", "bool")},
        "awkward names": {n: noise("float32", (2,), i) for i, n in enumerate(
            ["plain", "with space", "a/b/c", "dots.in.name", "слой.вес", "重み", "🦀", "0:weight", "quote\"'", "x" * 300])},
        "nothing": {},
        "2000 arrays": {f"layers.{i}.weight": noise("float32", (i % 5,), i) for i in range(2000)},
    }


def run(suite):
    sets = array_sets()
    read_npz(suite, sets)
    read_npy(suite)
    refusals(suite)
    write_npz(suite, sets)
    write_npy(suite)


# ---------------------------------------------------------------- their file, our reader

class Unseekable(io.RawIOBase):
    """A pipe's manners: zipfile then writes data descriptors."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def save_into_a_pipe(path, **arrays):
    with open(path, "wb") as file:
        np.savez(Unseekable(file), **arrays)


def save_long_headers(path, **arrays):
    """NPY 2.0 and 3.0 members, which NumPy writes when a header is long or not Latin-1."""
    with zipfile.ZipFile(path, "w") as archive:
        for i, (name, array) in enumerate(arrays.items()):
            with archive.open(f"{name}.npy", "w") as member:
                npy_format.write_array(member, np.asarray(array), version=(2 + i % 2, 0))


def read_npz(suite, sets):
    ways = {"savez": np.savez, "savez_compressed": np.savez_compressed, "savez into a pipe": save_into_a_pipe,
            "NPY 2.0 and 3.0": save_long_headers}
    for way, save in ways.items():
        for what, arrays in sets.items():
            if way != "savez" and what == "2000 arrays":
                continue
            with suite.case("read", f"{way}: {what}"):
                path = suite.folder / "read.npz"
                save(path, **arrays)
                report = suite.ballast.inspect(path)
                require(report["format"] == "npz", f"taken for {report['format']}")
                require([t["name"] for t in report["tensors"]] == list(arrays), "order of the names")
                compare(of_arrays(arrays), suite.ballast.tensors(path))
                suite.ballast.verify(path)


def read_npy(suite):
    def check(array, what):
        with suite.case("read", f"save: {what}"):
            path = suite.folder / "read.npy"
            np.save(path, array)
            seen = list(suite.ballast.tensors(path).values())
            require(len(seen) == 1, f"{len(seen)} tensors in one .npy")
            require(seen[0] == of_array(array), f"expected {of_array(array)}, got {seen[0]}")
            suite.ballast.verify(path)

    for name, array in every_dtype().items():
        check(array, name)
        check(np.asfortranarray(array), f"{name}, Fortran order")
        if array.dtype.itemsize > 1:
            check(big_endian(array), f"{name}, big-endian")
    for name, shape in SHAPES.items():
        check(noise("float32", shape), f"shape {name}")


def refusals(suite):
    objects = np.array([{"a": 1}, None], dtype=object)
    with suite.case("read", "an object array in .npy is refused with a reason"):
        np.save(suite.folder / "object.npy", objects, allow_pickle=True)
        refused_as_pickle(suite.ballast, suite.folder / "object.npy")
    with suite.case("read", "an object array in .npz is refused with a reason"):
        np.savez(suite.folder / "object.npz", good=np.zeros(3), bad=objects)
        refused_as_pickle(suite.ballast, suite.folder / "object.npz")


def refused_as_pickle(ballast, path):
    said = ballast.run("inspect", path, status=2).stderr.lower()
    require("object" in said or "pickle" in said, f"the reason does not speak of objects or pickles: {said!r}")


# ---------------------------------------------------------------- our file, their reader

def loaded_equals(path, arrays):
    with np.load(path, allow_pickle=False) as file:
        seen = {name: file[name] for name in file.files}
    compare(of_arrays(arrays), of_arrays(seen))
    require(list(seen) == list(arrays), "order of the names")
    for name, array in arrays.items():
        require(native_dtype(seen[name].dtype) == native_dtype(array.dtype), f"{name}: dtype {seen[name].dtype}")


def payload_offsets(path):
    """Where each member's array data starts in the file, by the local headers."""
    offsets = {}
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            require(info.compress_type == zipfile.ZIP_STORED, f"{info.filename} is compressed")
            file.seek(info.header_offset + 26)
            name_len, extra_len = np.frombuffer(file.read(4), "<u2")
            file.seek(info.header_offset + 30 + int(name_len) + int(extra_len))
            major, _ = npy_format.read_magic(file)
            length = 2 if major == 1 else 4
            header = int.from_bytes(file.read(length), "little")
            offsets[info.filename.removesuffix(".npy")] = file.tell() + header
    return offsets


def mappable(path, arrays):
    offsets = payload_offsets(path)
    for name, array in arrays.items():
        require(offsets[name] % 64 == 0, f"{name} starts at {offsets[name]}, not a multiple of 64")
    whole = np.memmap(path, mode="r")
    for name, array in arrays.items():
        if array.flags.c_contiguous and array.dtype.byteorder != ">":
            raw = whole[offsets[name]:offsets[name] + array.nbytes].tobytes()
            require(raw == canonical_bytes(array), f"{name}: the mapped bytes are not the array's")


def write_npz(suite, sets):
    convert = suite.ballast.convert
    for what, arrays in sets.items():
        stored, deflated = suite.folder / "theirs.npz", suite.folder / "theirs_deflated.npz"
        np.savez(stored, **arrays)
        np.savez_compressed(deflated, **arrays)
        with suite.case("write", f"npz re-encoded is savez's file, byte for byte: {what}"):
            ours = convert(stored, suite.folder / "again.npz", "--overwrite")
            loaded_equals(ours, arrays)
            same_bytes(ours, stored)
        with suite.case("write", f"npz --target aligned: {what}"):
            ours = convert(deflated, suite.folder / "aligned.npz", "--target", "aligned", "--overwrite")
            loaded_equals(ours, arrays)
            mappable(ours, arrays)
        with suite.case("write", f"npz --compress: {what}"):
            loaded_equals(convert(stored, suite.folder / "small.npz", "--compress", "--overwrite"), arrays)
        with suite.case("write", f"npz --target numpy is savez's file, byte for byte: {what}"):
            ours = convert(stored, suite.folder / "numpy.npz", "--target", "numpy", "--overwrite")
            loaded_equals(ours, arrays)
            same_bytes(ours, stored)
        with suite.case("write", f"npz --target numpy from a deflated file is savez's too: {what}"):
            ours = convert(deflated, suite.folder / "numpy2.npz", "--target", "numpy", "--overwrite")
            same_bytes(ours, stored)


def write_npy(suite):
    for name, array in every_dtype().items():
        for order, saved in (("C", array), ("Fortran", np.asfortranarray(array))):
            with suite.case("write", f"npy is save's file, byte for byte: {name}, {order} order"):
                theirs = suite.folder / "theirs.npy"
                np.save(theirs, saved)
                ours = suite.ballast.convert(theirs, suite.folder / "ours.npy", "--overwrite")
                seen = np.load(ours, allow_pickle=False)
                require(of_array(seen) == of_array(array), f"expected {of_array(array)}, got {of_array(seen)}")
                same_bytes(ours, theirs)
    for name, shape in SHAPES.items():
        with suite.case("write", f"npy out of an npz of one array: shape {name}"):
            array = noise("float32", shape)
            np.savez(suite.folder / "one.npz", array)
            ours = suite.ballast.convert(suite.folder / "one.npz", suite.folder / "one.npy", "--overwrite")
            seen = np.load(ours, allow_pickle=False)
            if of_array(seen) != of_array(array):
                raise Mismatch(f"expected {of_array(array)}, got {of_array(seen)}")
