#include "ballast/formats/torch/torch_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/base/checked.h"

namespace ballast {

namespace {

constexpr size_t kMaxRank = 64;
constexpr int kMaxWrappers = 4;  // a parameter around a tensor with attributes is two

Error unsound(std::string_view what) { return make_error(ErrorCode::kCorrupt, std::string(what)); }
Error unsupported(std::string_view what) { return make_error(ErrorCode::kUnsupported, std::string(what)); }

// The storage's elements that a tensor is made of.
struct TorchGeometry {
  uint64_t first = 0;
  std::vector<uint64_t> sizes;
  std::vector<uint64_t> strides;
  uint64_t elements = 0;
  uint64_t run = 0;  // elements from the first to the last one that is used
  bool contiguous = false;
};

// Elements from the first to the last; nullopt where that cannot be counted. Only for tensors with elements.
std::optional<uint64_t> run_length(const TorchGeometry& geometry) {
  std::optional<uint64_t> last = 0;
  for (size_t k = 0; k < geometry.sizes.size() && last; ++k) {
    const auto reach = checked_mul(geometry.sizes[k] - 1, geometry.strides[k]);
    last = reach ? checked_add(*last, *reach) : std::nullopt;
  }
  return last ? checked_add(*last, 1) : std::nullopt;
}

bool is_contiguous(const TorchGeometry& geometry) {
  uint64_t expected = 1;
  for (size_t k = geometry.sizes.size(); k-- > 0;) {
    if (geometry.sizes[k] != 1 && geometry.strides[k] != expected) return false;
    expected *= geometry.sizes[k];
  }
  return true;
}

class TensorReader {
 public:
  TensorReader(const PickleTree& tree, const TorchStorages& storages, bool big_endian)
      : tree_(tree), storages_(storages), big_endian_(big_endian) {}

  Result<TorchTensor> read(PickleValue value) {
    if (tree_.is(value, PickleKind::kPersistent)) return read_storage(value);
    name_ = torch_global(tree_.global(value)).what;
    arguments_ = tree_.items(value);
    for (int wrappers = 0;
         name_ == TorchName::kParameter || name_ == TorchName::kParameterState || name_ == TorchName::kFromType;
         ++wrappers) {
      if (wrappers == kMaxWrappers) return unsound("it is wrapped too often");
      BALLAST_CHECK(name_ == TorchName::kFromType ? unwrap_typed() : unwrap_parameter());
    }
    return read_unwrapped();
  }

 private:
  bool is(size_t argument, PickleKind kind) const { return tree_.is(arguments_[argument], kind); }

  Status want_arguments(size_t least, size_t most) const {
    if (arguments_.size() >= least && arguments_.size() <= most) return {};
    return unsound(fmt::format("it is made from {} arguments instead of {}", arguments_.size(), least));
  }

  // ---------------------------------------------------------------- wrappers

  // (tensor, requires_grad, hooks [, state])
  Status unwrap_parameter() {
    const bool has_state = name_ == TorchName::kParameterState;
    BALLAST_CHECK(want_arguments(has_state ? 4 : 3, has_state ? 4 : 3));
    BALLAST_CHECK(take_requires_grad(1));
    BALLAST_CHECK(check_no_hooks(2));
    if (has_state) BALLAST_CHECK(take_attributes(3));
    const PickleValue inner = arguments_[0];
    if (!tree_.is(inner, PickleKind::kCall)) return unsound("the parameter holds no tensor");
    name_ = torch_global(tree_.global(inner)).what;
    arguments_ = tree_.items(inner);
    return {};
  }

  // (function, class, arguments, state): the function applied to the arguments, with attributes.
  Status unwrap_typed() {
    BALLAST_CHECK(want_arguments(4, 4));
    if (!is(0, PickleKind::kGlobal) || !is(1, PickleKind::kGlobal) || !is(2, PickleKind::kTuple) ||
        torch_global(tree_.global(arguments_[1])).what != TorchName::kTensorClass) {
      return unsound("it is not made from a function, a class and arguments");
    }
    BALLAST_CHECK(take_attributes(3));
    name_ = torch_global(tree_.global(arguments_[0])).what;
    arguments_ = tree_.items(arguments_[2]);
    return {};
  }

  Status take_requires_grad(size_t argument) {
    if (!is(argument, PickleKind::kBool)) return unsound("requires_grad is neither True nor False");
    if (!result_.info.requires_grad) result_.info.requires_grad = tree_.boolean(arguments_[argument]);
    return {};
  }

  Status check_no_hooks(size_t argument) const {
    if (is(argument, PickleKind::kNone)) return {};
    if (is(argument, PickleKind::kDict) && tree_.items(arguments_[argument]).empty()) return {};
    return unsupported("it has hooks, which are functions; nothing was run");
  }

  // A dict, or a pair of a dict and of one for slots.
  Status take_attributes(size_t argument) {
    PickleValue state = arguments_[argument];
    if (tree_.is(state, PickleKind::kTuple)) {
      const auto both = tree_.items(state);
      if (both.size() != 2 || !tree_.is(both[1], PickleKind::kNone)) return unsupported("its attributes have slots");
      state = both[0];
    }
    if (!tree_.is(state, PickleKind::kDict)) return unsound("its attributes are no dict");
    if (result_.attributes && !tree_.items(state).empty()) return unsupported("it has two sets of attributes");
    if (!tree_.items(state).empty()) result_.attributes = state;
    return {};
  }

  // ---------------------------------------------------------------- the tensor itself

  // A storage on its own is one dimension.
  Result<TorchTensor> read_storage(PickleValue value) {
    const TorchStorageUse& use = storages_.use(value);
    geometry_ = {.first = use.first,
                 .sizes = {use.count},
                 .strides = {1},
                 .elements = use.count,
                 .run = use.count,
                 .contiguous = true};
    result_.storage = use.storage;
    return place(storages_.all()[use.storage].type);
  }

  Result<TorchTensor> read_unwrapped() {
    switch (name_) {
      case TorchName::kTensor: BALLAST_CHECK(want_arguments(4, 4)); break;
      case TorchName::kTensorV2: BALLAST_CHECK(want_arguments(6, 7)); break;
      case TorchName::kTensorV3: BALLAST_CHECK(want_arguments(7, 8)); break;
      case TorchName::kQuantizedTensor: BALLAST_CHECK(want_arguments(7, 7)); break;
      case TorchName::kSparseTensor: return unsupported("it is sparse; save a dense one instead (tensor.to_dense())");
      case TorchName::kMetaTensor: return unsupported("it has no data (a tensor of the device \"meta\")");
      default: return unsound("it is made by something that makes no tensors");
    }
    if (!is(0, PickleKind::kPersistent)) return unsound("it has no storage");
    const TorchStorageUse& use = storages_.use(arguments_[0]);
    result_.storage = use.storage;
    TorchType type = storages_.all()[use.storage].type;
    BALLAST_CHECK(read_details(type));
    BALLAST_CHECK(read_geometry(use, type));
    return place(type);
  }

  // What stands behind the geometry.
  Status read_details(TorchType& type) {
    if (name_ == TorchName::kTensor) return {};
    const bool quantized = name_ == TorchName::kQuantizedTensor;
    const size_t at = quantized ? 5 : 4;
    BALLAST_CHECK(take_requires_grad(at));
    BALLAST_CHECK(check_no_hooks(at + 1));
    if (quantized) {
      const size_t fields = is(4, PickleKind::kTuple) ? tree_.items(arguments_[4]).size() : 0;
      if (fields != 3 && fields != 4) return unsound("its quantization is no tuple of 3 or 4 fields");
      result_.quantization = arguments_[4];
      return {};
    }
    size_t metadata = at + 2;
    if (name_ == TorchName::kTensorV3) BALLAST_CHECK(take_dtype(metadata++, type));
    if (metadata < arguments_.size()) BALLAST_CHECK(take_metadata(metadata, type));
    return {};
  }

  Status take_dtype(size_t argument, TorchType& type) const {
    if (!is(argument, PickleKind::kGlobal)) return unsound("its dtype is none");
    const TorchGlobal& named = torch_global(tree_.global(arguments_[argument]));
    if (named.what != TorchName::kDType) return unsound("its dtype is none");
    if (!type.untyped) return unsound("its dtype is given twice, by the storage and beside it");
    type = named.type;
    return {};
  }

  // {"conj": True} and {"neg": True}
  Status take_metadata(size_t argument, const TorchType& type) {
    if (!is(argument, PickleKind::kDict)) return unsound("its metadata is no dict");
    const auto pairs = tree_.items(arguments_[argument]);
    for (size_t i = 0; i < pairs.size(); i += 2) {
      const bool is_text = tree_.is(pairs[i], PickleKind::kText);
      const std::string_view key = is_text ? tree_.text(pairs[i]) : std::string_view();
      if ((key != "conj" && key != "neg") || !tree_.is(pairs[i + 1], PickleKind::kBool)) {
        return unsupported("its metadata says something other than conj and neg");
      }
      (key == "conj" ? conjugate_ : negate_) = tree_.boolean(pairs[i + 1]);
    }
    const DTypeInfo& info = dtype_info(type.dtype);
    const bool has_sign = info.kind == DTypeKind::kComplex || (info.kind == DTypeKind::kFloat && info.bits >= 16);
    if ((negate_ && !has_sign) || (conjugate_ && info.kind != DTypeKind::kComplex)) {
      return unsupported("it is to be negated or conjugated, which its dtype does not allow here");
    }
    return {};
  }

  // ---------------------------------------------------------------- geometry

  Result<std::vector<uint64_t>> read_counts(PickleValue value, std::string_view what) const {
    const bool is_size = tree_.is(value, PickleKind::kCall) &&
                         torch_global(tree_.global(value)).what == TorchName::kSize && tree_.items(value).size() == 1;
    if (is_size) value = tree_.items(value).front();
    if (!tree_.is(value, PickleKind::kTuple) && !tree_.is(value, PickleKind::kList)) {
      return unsound(fmt::format("its {} is no tuple", what));
    }
    if (tree_.items(value).size() > kMaxRank) {
      return unsupported(
          fmt::format("it has {} dimensions; {} are the most that are read", tree_.items(value).size(), kMaxRank));
    }
    std::vector<uint64_t> counts;
    for (const PickleValue item : tree_.items(value)) {
      if (!tree_.is(item, PickleKind::kInteger)) return unsound(fmt::format("its {} is not made of integers", what));
      if (tree_.integer(item) < 0) return unsound(fmt::format("its {} has the number {}", what, tree_.integer(item)));
      counts.push_back(static_cast<uint64_t>(tree_.integer(item)));
    }
    return counts;
  }

  Status read_geometry(const TorchStorageUse& use, const TorchType& type) {
    if (!is(1, PickleKind::kInteger) || tree_.integer(arguments_[1]) < 0) {
      return unsound("its offset in the storage is no number from 0 on");
    }
    TorchGeometry& geometry = geometry_;
    geometry.first = static_cast<uint64_t>(tree_.integer(arguments_[1]));
    BALLAST_TRY(geometry.sizes, read_counts(arguments_[2], "size"));
    BALLAST_TRY(geometry.strides, read_counts(arguments_[3], "stride"));
    if (geometry.sizes.size() != geometry.strides.size()) {
      return unsound(
          fmt::format("it has {} dimensions and {} strides", geometry.sizes.size(), geometry.strides.size()));
    }
    const Shape shape{std::span<const uint64_t>(geometry.sizes)};
    const bool empty = std::ranges::count(geometry.sizes, uint64_t{0}) != 0;
    const auto elements = empty ? std::optional<uint64_t>(0) : shape.element_count();
    if (!elements || !checked_mul(*elements, type.bytes)) {
      return unsound(fmt::format("shape {} has more elements than can be counted", shape.to_string()));
    }
    geometry.elements = *elements;
    if (empty) {
      geometry.first = 0;
      geometry.contiguous = true;
      return {};
    }
    return check_range(use, type);
  }

  // The storage counts its own elements, which are bytes where the tensor brings the type.
  Status check_range(const TorchStorageUse& use, const TorchType& type) {
    const TorchStorage& storage = storages_.all()[use.storage];
    const auto run = run_length(geometry_);
    const auto end = run ? checked_add(geometry_.first, *run) : std::nullopt;
    const auto end_byte = end ? checked_mul(*end, type.bytes) : std::nullopt;
    if (!end_byte || *end_byte > use.count * storage.type.bytes) {
      return unsound(fmt::format("offset {}, shape {} and strides reach past the {} bytes of storage {}",
                                 geometry_.first, Shape(std::span<const uint64_t>(geometry_.sizes)).to_string(),
                                 use.count * storage.type.bytes, storage.key));
    }
    const uint64_t view_start = use.first * storage.type.bytes;
    if (view_start % type.bytes != 0) return unsound("the part of the storage begins inside an element");
    geometry_.first += view_start / type.bytes;
    geometry_.run = *run;
    geometry_.contiguous = is_contiguous(geometry_);
    return {};
  }

  // ---------------------------------------------------------------- the result

  Result<TorchTensor> place(const TorchType& type) {
    TensorInfo& info = result_.info;
    info.dtype = type.dtype;
    info.byte_size = geometry_.elements * type.bytes;
    // Where two values share a byte, PyTorch counts bytes and everyone else values.
    std::vector<uint64_t> sizes = geometry_.sizes;
    if (type.values > 1 && sizes.empty()) sizes.push_back(1);
    if (type.values > 1) {
      const auto last = checked_mul(sizes.back(), type.values);
      if (!last) return unsound("its last dimension has more elements than can be counted");
      sizes.back() = *last;
    }
    info.shape = Shape(std::span<const uint64_t>(sizes));
    if (!type.scheme.empty()) info.set_scheme(std::string(type.scheme));
    if (big_endian_ && type.dtype == DType::kOpaque) {
      return unsupported(fmt::format("{} in big-endian order is not read", type.scheme));
    }
    fill_extent(type);
    return std::move(result_);
  }

  void fill_extent(const TorchType& type) {
    const TorchStorage& storage = storages_.all()[result_.storage];
    StoredExtent& extent = result_.extent;
    extent.offset = storage.record.offset;
    if (geometry_.elements == 0) return;
    const uint64_t run_size = geometry_.run * type.bytes;
    extent.member_prefix = geometry_.first * type.bytes;
    extent.member_suffix = storage.bytes() - extent.member_prefix - run_size;
    extent.deflated = storage.record.deflated;
    extent.crc32 = storage.record.crc32;
    extent.length = extent.deflated ? storage.record.stored_size : run_size;
    if (!extent.deflated) extent.offset += extent.member_prefix;
    extent.big_endian = big_endian_ && type.bytes > 1;
    if (geometry_.contiguous && !conjugate_ && !negate_) return;
    StridedView view{.sizes = std::move(geometry_.sizes),
                     .strides = std::move(geometry_.strides),
                     .run_size = run_size,
                     .element_size = type.bytes,
                     .conjugate = conjugate_,
                     .negate = negate_};
    extent.view = std::make_shared<const StridedView>(std::move(view));
  }

  const PickleTree& tree_;
  const TorchStorages& storages_;
  bool big_endian_;
  TorchName name_ = TorchName::kTensor;
  std::span<const PickleValue> arguments_;
  TorchGeometry geometry_;
  bool conjugate_ = false;
  bool negate_ = false;
  TorchTensor result_;
};

}  // namespace

bool is_torch_tensor(const PickleTree& tree, PickleValue value) {
  if (tree.is(value, PickleKind::kPersistent)) return true;
  if (!tree.is(value, PickleKind::kCall)) return false;
  switch (torch_global(tree.global(value)).what) {
    case TorchName::kTensor:
    case TorchName::kTensorV2:
    case TorchName::kTensorV3:
    case TorchName::kParameter:
    case TorchName::kParameterState:
    case TorchName::kFromType:
    case TorchName::kQuantizedTensor:
    case TorchName::kSparseTensor:
    case TorchName::kMetaTensor: return true;
    default: return false;
  }
}

Result<TorchTensor> read_torch_tensor(const PickleTree& tree, const TorchStorages& storages, bool big_endian,
                                      PickleValue value) {
  return TensorReader(tree, storages, big_endian).read(value);
}

}  // namespace ballast
