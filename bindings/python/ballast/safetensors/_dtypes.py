"""Names of types: safetensors' in files, NumPy's and torch's in programs, and Ballast's own."""

from __future__ import annotations

# safetensors' name -> Ballast's name, NumPy's or ml_dtypes' name, torch's name; empty where there is none.
_ROWS: dict[str, tuple[str, str, str]] = {
    "F64": ("f64", "float64", "float64"),
    "F32": ("f32", "float32", "float32"),
    "F16": ("f16", "float16", "float16"),
    "BF16": ("bf16", "bfloat16", "bfloat16"),
    "I64": ("i64", "int64", "int64"),
    "I32": ("i32", "int32", "int32"),
    "I16": ("i16", "int16", "int16"),
    "I8": ("i8", "int8", "int8"),
    "U64": ("u64", "uint64", "uint64"),
    "U32": ("u32", "uint32", "uint32"),
    "U16": ("u16", "uint16", "uint16"),
    "U8": ("u8", "uint8", "uint8"),
    "BOOL": ("bool", "bool", "bool"),
    "C64": ("c64", "complex64", "complex64"),
    "F8_E4M3": ("f8_e4m3", "float8_e4m3fn", "float8_e4m3fn"),
    "F8_E5M2": ("f8_e5m2", "float8_e5m2", "float8_e5m2"),
    "F8_E8M0": ("f8_e8m0", "float8_e8m0fnu", "float8_e8m0fnu"),
    "F8_E4M3FNUZ": ("f8_e4m3fnuz", "float8_e4m3fnuz", "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": ("f8_e5m2fnuz", "float8_e5m2fnuz", "float8_e5m2fnuz"),
    "F4": ("f4", "", "float4_e2m1fn_x2"),
    "F6_E2M3": ("f6_e2m3", "", ""),
    "F6_E3M2": ("f6_e3m2", "", ""),
}

FROM_BALLAST = {row[0]: name for name, row in _ROWS.items()}
TO_BALLAST = {name: row[0] for name, row in _ROWS.items()}
TO_TORCH = {row[0]: row[2] for row in _ROWS.values() if row[2]}
# Whatever programs may call a type.
BY_ANY_NAME = {
    **{name: name for name in _ROWS},
    **{row[1]: name for name, row in _ROWS.items() if row[1]},
    **{row[2]: name for name, row in _ROWS.items() if row[2]},
}
