#include "ballast/formats/torch/torch_names.h"

#include <array>

namespace ballast {

namespace {

constexpr std::string_view kTorch = "torch";
constexpr std::string_view kUtils = "torch._utils";

constexpr TorchGlobal callable(std::string_view module, std::string_view name, TorchName what) {
  return {module, name, what, PickleRole::kCallable, false, {}};
}

constexpr TorchGlobal storage(std::string_view name, DType dtype, uint8_t bytes) {
  return {kTorch, name, TorchName::kStorageClass, PickleRole::kName, false, {dtype, bytes, 1, false, {}}};
}

constexpr TorchGlobal dtype(std::string_view name, DType type, uint8_t bytes, uint8_t values = 1,
                            std::string_view scheme = {}) {
  return {kTorch, name, TorchName::kDType, PickleRole::kName, false, {type, bytes, values, false, scheme}};
}

constexpr TorchGlobal word(std::string_view module, std::string_view name, TorchName what) {
  return {module, name, what, PickleRole::kName, false, {}};
}

// Python 2's name of the module stands in every pickle of protocol 2, Python 3's in the others.
constexpr std::string_view kBuiltins2 = "__builtin__";
constexpr std::string_view kBuiltins3 = "builtins";

constexpr std::array kGlobals = {
    callable(kUtils, "_rebuild_tensor_v2", TorchName::kTensorV2),
    callable(kUtils, "_rebuild_tensor_v3", TorchName::kTensorV3),
    callable(kUtils, "_rebuild_tensor", TorchName::kTensor),
    callable(kUtils, "_rebuild_parameter", TorchName::kParameter),
    callable(kUtils, "_rebuild_parameter_with_state", TorchName::kParameterState),
    callable("torch._tensor", "_rebuild_from_type_v2", TorchName::kFromType),
    callable(kUtils, "_rebuild_qtensor", TorchName::kQuantizedTensor),
    callable(kUtils, "_rebuild_sparse_tensor", TorchName::kSparseTensor),
    callable(kUtils, "_rebuild_meta_tensor_no_storage", TorchName::kMetaTensor),
    TorchGlobal{"collections", "OrderedDict", TorchName::kDict, PickleRole::kDict, /*takes_state=*/true, {}},
    TorchGlobal{"collections", "Counter", TorchName::kDict, PickleRole::kDict, false, {}},
    callable(kBuiltins2, "set", TorchName::kSet),
    callable(kBuiltins3, "set", TorchName::kSet),
    callable(kBuiltins2, "bytes", TorchName::kBytes),
    callable(kBuiltins3, "bytes", TorchName::kBytes),
    callable(kBuiltins2, "bytearray", TorchName::kByteArray),
    callable(kBuiltins3, "bytearray", TorchName::kByteArray),
    callable(kBuiltins2, "complex", TorchName::kComplex),
    callable(kBuiltins3, "complex", TorchName::kComplex),
    callable("_codecs", "encode", TorchName::kEncode),
    callable(kTorch, "Size", TorchName::kSize),
    callable(kTorch, "device", TorchName::kDevice),
    callable("torch.serialization", "_get_layout", TorchName::kLayout),
    callable("numpy._core.multiarray", "scalar", TorchName::kNumpyScalar),
    callable("numpy.core.multiarray", "scalar", TorchName::kNumpyScalar),
    TorchGlobal{"numpy", "dtype", TorchName::kNumpyDType, PickleRole::kCallable, /*takes_state=*/true, {}},
    word(kTorch, "Tensor", TorchName::kTensorClass),
    word("torch.nn.parameter", "Parameter", TorchName::kTensorClass),
    word(kTorch, "per_tensor_affine", TorchName::kQuantization),
    word(kTorch, "per_channel_affine", TorchName::kQuantization),
    word(kTorch, "per_channel_affine_float_qparams", TorchName::kQuantization),
    storage("DoubleStorage", DType::kF64, 8),
    storage("FloatStorage", DType::kF32, 4),
    storage("HalfStorage", DType::kF16, 2),
    storage("BFloat16Storage", DType::kBF16, 2),
    storage("LongStorage", DType::kI64, 8),
    storage("IntStorage", DType::kI32, 4),
    storage("ShortStorage", DType::kI16, 2),
    storage("CharStorage", DType::kI8, 1),
    storage("ByteStorage", DType::kU8, 1),
    storage("BoolStorage", DType::kBool, 1),
    storage("ComplexFloatStorage", DType::kC64, 8),
    storage("ComplexDoubleStorage", DType::kC128, 16),
    storage("QInt8Storage", DType::kI8, 1),
    storage("QUInt8Storage", DType::kU8, 1),
    storage("QInt32Storage", DType::kI32, 4),
    TorchGlobal{"torch.storage",
                "UntypedStorage",
                TorchName::kStorageClass,
                PickleRole::kName,
                false,
                {DType::kU8, 1, 1, /*untyped=*/true, {}}},
    dtype("float64", DType::kF64, 8),
    dtype("float32", DType::kF32, 4),
    dtype("float16", DType::kF16, 2),
    dtype("bfloat16", DType::kBF16, 2),
    dtype("int64", DType::kI64, 8),
    dtype("int32", DType::kI32, 4),
    dtype("int16", DType::kI16, 2),
    dtype("int8", DType::kI8, 1),
    dtype("uint64", DType::kU64, 8),
    dtype("uint32", DType::kU32, 4),
    dtype("uint16", DType::kU16, 2),
    dtype("uint8", DType::kU8, 1),
    dtype("bool", DType::kBool, 1),
    dtype("complex64", DType::kC64, 8),
    dtype("complex128", DType::kC128, 16),
    dtype("complex32", DType::kOpaque, 4, 1, "torch.complex32"),
    dtype("bcomplex32", DType::kOpaque, 4, 1, "torch.bcomplex32"),
    dtype("float8_e4m3fn", DType::kF8E4M3, 1),
    dtype("float8_e5m2", DType::kF8E5M2, 1),
    dtype("float8_e8m0fnu", DType::kF8E8M0, 1),
    dtype("float8_e4m3fnuz", DType::kF8E4M3Fnuz, 1),
    dtype("float8_e5m2fnuz", DType::kF8E5M2Fnuz, 1),
    dtype("float4_e2m1fn_x2", DType::kF4, 1, 2),
    dtype("qint8", DType::kI8, 1),
    dtype("quint8", DType::kU8, 1),
    dtype("qint32", DType::kI32, 4),
};

// Old files name the device in the module of a storage's class.
std::string_view without_device(std::string_view module, std::string_view name) {
  return module == "torch.cuda" && name.ends_with("Storage") ? kTorch : module;
}

}  // namespace

const TorchGlobal& torch_global(uint16_t id) { return kGlobals[id]; }

std::optional<PickleGlobal> find_torch_global(std::string_view module, std::string_view name) {
  module = without_device(module, name);
  for (size_t i = 0; i < kGlobals.size(); ++i) {
    const TorchGlobal& row = kGlobals[i];
    if (row.name == name && row.module == module)
      return PickleGlobal{static_cast<uint16_t>(i), row.role, row.takes_state};
  }
  return std::nullopt;
}

}  // namespace ballast
