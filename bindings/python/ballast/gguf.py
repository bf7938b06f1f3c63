"""``GGUFReader`` with the interface of the package ``gguf``, over Ballast's own reader."""

from __future__ import annotations

import os
from collections import OrderedDict
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ballast import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GGMLQuantizationType", "GGUFReader", "GGUFValueType", "ReaderField", "ReaderTensor"]


class GGMLQuantizationType(IntEnum):
    """ggml's numbers of types."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


class GGUFValueType(IntEnum):
    """GGUF's numbers of the types of metadata."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


class ReaderField:
    """One entry of the metadata."""

    __slots__ = ("_is_list", "_value", "name", "types")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.types = _types_of(value)
        self._value: Any = value
        self._is_list = isinstance(value, list)

    def contents(self, index_or_slice: int | slice = slice(None)) -> Any:
        """The value; of a list one element or a part."""
        return self._value[index_or_slice] if self._is_list else self._value

    @property
    def parts(self) -> list[NDArray[Any]]:
        """The values as arrays: texts as their bytes."""
        import numpy

        values: list[Any] = self._value if self._is_list else [self._value]
        return [
            numpy.frombuffer(value.encode("utf-8", "surrogateescape"), numpy.uint8)
            if isinstance(value, str)
            else numpy.array([value])
            for value in values
        ]

    @property
    def data(self) -> list[int]:
        """Positions in ``parts`` of what was stored."""
        return list(range(len(self._value) if self._is_list else 1))

    def __repr__(self) -> str:
        return f"ReaderField({self.name}: {str(self._value)[:60]})"


class _TensorField(ReaderField):
    """What the file says about a tensor, in the package's parts: the length of its name, its name, the number of its
    dimensions, the dimensions, its type, and its offset from the beginning of the data."""

    __slots__ = ("_parts",)

    def __init__(self, name: str, parts: list[NDArray[Any]]) -> None:
        super().__init__(name, None)
        self._parts = parts

    @property
    def parts(self) -> list[NDArray[Any]]:
        return self._parts

    @property
    def data(self) -> list[int]:
        """Of the name, the dimensions, the type and the offset."""
        return [1, 3, 4, 5]

    def __repr__(self) -> str:
        return f"ReaderField({self.name}: {self._parts[3].tolist()})"


def _types_of(value: Any) -> list[GGUFValueType]:
    if value is None:  # what a tensor's field has
        return []
    if isinstance(value, list):
        inner: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [GGUFValueType.ARRAY, *(_types_of(inner[0]) if inner else [])]
    if isinstance(value, str):
        return [GGUFValueType.STRING]
    if isinstance(value, bool):
        return [GGUFValueType.BOOL]
    if isinstance(value, float):
        return [GGUFValueType.FLOAT64]
    return [GGUFValueType.INT64 if value < 2**63 else GGUFValueType.UINT64]


class ReaderTensor(NamedTuple):
    """One tensor. ``shape`` has the first dimension last, as GGUF stores it; ``data`` has NumPy's order."""

    name: str
    tensor_type: GGMLQuantizationType
    shape: NDArray[Any]
    n_elements: int
    n_bytes: int
    data_offset: int
    data: NDArray[Any]
    field: ReaderField


class GGUFReader:
    """A GGUF file: its metadata in ``fields``, its tensors in ``tensors``, as views of the file.

    >>> import ballast, numpy
    >>> from ballast.gguf import GGUFReader
    >>> _ = ballast.save("tiny.gguf", {"w": numpy.ones((2, 3), "f4")}, metadata={"general.architecture": "llama"})
    >>> reader = GGUFReader("tiny.gguf")
    >>> reader.get_field("general.architecture").contents(), reader.tensors[0].name, reader.tensors[0].shape.tolist()
    ('llama', 'w', [3, 2])
    """

    def __init__(self, path: str | os.PathLike[str], mode: Literal["r", "r+", "c"] = "r") -> None:
        if mode == "r+":
            raise ValueError('files are not changed in place: open with "r" or "c", and write with ballast.save')
        self._archive = _core.open_path(os.fspath(path), mode)
        if self._archive.format != "gguf":
            found = self._archive.format
            self._archive.close()
            raise ValueError(f"{os.fspath(path)}: is {found}, not GGUF")
        self.fields: OrderedDict[str, ReaderField] = OrderedDict()
        metadata = self._archive.metadata
        counts = {"GGUF.version": int(self._archive.version or 3), "GGUF.tensor_count": len(self._archive),
                  "GGUF.kv_count": len(metadata)}  # fmt: skip
        for name, value in {**counts, **metadata}.items():
            self.fields[name] = ReaderField(name, value)
        self.alignment = int(metadata.get("general.alignment", 32))
        tensors = list(self._archive.values())
        self.data_offset = min((tensor.offset or 0 for tensor in tensors), default=self._archive.stored_bytes)
        self.tensors = [_reader_tensor(tensor, self.data_offset) for tensor in tensors]

    def get_field(self, key: str) -> ReaderField | None:
        return self.fields.get(key)

    def get_tensor(self, idx: int) -> ReaderTensor:
        return self.tensors[idx]


def _reader_tensor(tensor: _core.Tensor, data_offset: int) -> ReaderTensor:
    import numpy

    type_ = GGMLQuantizationType[tensor.type.upper()]
    shape = numpy.array(tensor.shape[::-1], numpy.uint64)
    data = tensor.raw()
    if type_ == GGMLQuantizationType.BF16:  # the package has no type for it and shows its bytes
        data = data.view(numpy.uint8)
    name, offset = tensor.name.encode("utf-8", "surrogateescape"), tensor.offset or 0
    parts: list[NDArray[Any]] = [
        numpy.array([len(name)], numpy.uint64),
        numpy.frombuffer(name, numpy.uint8),
        numpy.array([len(shape)], numpy.uint32),
        shape,
        numpy.array([type_], numpy.uint32),
        numpy.array([offset - data_offset], numpy.uint64),
    ]
    field = _TensorField(tensor.name, parts)
    return ReaderTensor(tensor.name, type_, shape, tensor.size, tensor.nbytes, offset, data, field)
