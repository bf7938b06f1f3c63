// Sets over arrays: what NPZ files, IDX files, folders of pictures and programs' own memory have in common.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/base/checked.h"
#include "ballast/io/guard.h"
#include "ballast/tensor/elements.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

constexpr size_t kBlock = 512;  // numbers converted at a time
constexpr uint64_t kMostClasses = uint64_t{1} << 24;

Error bad_array(const std::string& set, const ArrayColumn& array, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: array \"{}\" ({} {}) {}", set, array.name,
                                                             dtype_name(array.dtype), array.shape.to_string(), what));
}

// Numbers of any real type as f32, each divided by the same number.
void to_floats(DType dtype, ByteSpan in, float divisor, std::span<float> out) {
  if (dtype == DType::kF32) {
    std::memcpy(out.data(), in.data(), out.size_bytes());
  } else if (dtype == DType::kU8) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(std::to_integer<uint8_t>(in[i]));
  } else {
    std::array<double, kBlock> block;
    for (size_t begin = 0; begin < out.size(); begin += kBlock) {
      const size_t count = std::min(kBlock, out.size() - begin);
      to_doubles(dtype, in, begin, std::span(block).first(count));
      for (size_t i = 0; i < count; ++i) out[begin + i] = static_cast<float>(block[i]);
    }
  }
  if (divisor == 1) return;
  for (float& value : out) value /= divisor;
}

Shape without_first(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

class ArrayDataset final : public Dataset {
 public:
  ArrayDataset(std::string name, ExampleLayout layout, ArrayColumn features, std::optional<ArrayColumn> targets,
               std::vector<uint32_t> classes, float divisor)
      : name_(std::move(name)),
        layout_(std::move(layout)),
        features_(std::move(features)),
        targets_(std::move(targets)),
        classes_(std::move(classes)),
        size_(features_.shape[0]),
        divisor_(divisor) {}

  const ExampleLayout& layout() const override { return layout_; }
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }

 private:
  Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const override {
    const uint64_t feature_count = layout_.feature_count();
    const uint64_t target_count = layout_.target_count();
    for (size_t i = 0; i < examples.size(); ++i) {
      fill_row(features_, examples[i], divisor_, out.features.subspan(i * feature_count, feature_count));
      if (layout_.targets == TargetKind::kClasses) out.target_ids[i] = classes_[examples[i]];
      if (layout_.targets == TargetKind::kValues)
        fill_row(*targets_, examples[i], 1, out.targets.subspan(i * target_count, target_count));
    }
    return {};
  }

  static void fill_row(const ArrayColumn& array, uint64_t row, float divisor, std::span<float> out) {
    const size_t bytes = out.size() * (dtype_info(array.dtype).bits / 8);
    to_floats(array.dtype, array.bytes.bytes().subspan(row * bytes, bytes), divisor, out);
  }

  std::string name_;
  ExampleLayout layout_;
  ArrayColumn features_;
  std::optional<ArrayColumn> targets_;
  std::vector<uint32_t> classes_;
  uint64_t size_;
  float divisor_;
};

bool is_usable(DType dtype) {
  const DTypeInfo& type = dtype_info(dtype);
  return is_arithmetic(dtype) && type.kind != DTypeKind::kComplex && type.bits >= 8;
}

Status check_array(const std::string& set, const ArrayColumn& array) {
  if (!is_usable(array.dtype)) return bad_array(set, array, "has a type that cannot become f32");
  if (array.shape.rank() == 0) return bad_array(set, array, "has no first dimension that counts examples");
  const auto size = packed_size(array.shape, array.dtype);
  if (!size || *size != array.bytes.bytes().size()) {
    return bad_array(set, array, fmt::format("comes with {} bytes, which is not its size", array.bytes.bytes().size()));
  }
  if (array.shape[0] == 0) return bad_array(set, array, "holds no examples");
  if (*size == 0) return bad_array(set, array, "has examples without any elements");
  return {};
}

Status check_same_count(const std::string& set, const ArrayColumn& features, const ArrayColumn& targets) {
  if (targets.shape[0] == features.shape[0]) return {};
  return bad_array(set, targets,
                   fmt::format("has {} rows where array \"{}\" ({} {}) has {}: each example needs one "
                               "target",
                               targets.shape[0], features.name, dtype_name(features.dtype), features.shape.to_string(),
                               features.shape[0]));
}

Result<Shape> item_shape(const std::string& set, const ArrayColumn& features, const ArrayOptions& options) {
  const Shape stored = without_first(features.shape);
  if (!options.item_shape) return stored;
  if (options.item_shape->element_count() == stored.element_count()) return *options.item_shape;
  return bad_array(set, features,
                   fmt::format("has examples of {} elements, which do not take the shape {}",
                               stored.element_count().value_or(0), options.item_shape->to_string()));
}

// ---------------------------------------------------------------- classes

// Calls visit(index, value) with every number of the array until it returns an error.
template <typename Visit>
Status for_each_number(const ArrayColumn& array, uint64_t count, const Visit& visit) {
  std::array<double, kBlock> block;
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const auto now = static_cast<size_t>(std::min<uint64_t>(kBlock, count - begin));
    to_doubles(array.dtype, array.bytes.bytes(), begin, std::span(block).first(now));
    for (size_t i = 0; i < now; ++i) BALLAST_CHECK(visit(begin + i, block[i]));
  }
  return {};
}

Result<std::vector<uint32_t>> read_indices(const std::string& set, const ArrayColumn& targets, uint64_t limit) {
  std::vector<uint32_t> classes(targets.shape[0]);
  BALLAST_CHECK(for_each_number(targets, classes.size(), [&](uint64_t at, double value) -> Status {
    if (value >= 0 && value < static_cast<double>(limit) && value == std::floor(value)) {
      classes[at] = static_cast<uint32_t>(value);
      return {};
    }
    return bad_array(
        set, targets,
        fmt::format("has {} at element {}, which is no class: they go from 0 to {}", value, at, limit - 1));
  }));
  return classes;
}

Result<std::vector<uint32_t>> read_one_hot(const std::string& set, const ArrayColumn& targets) {
  const uint64_t width = targets.shape[1];
  std::vector<uint32_t> classes(targets.shape[0]);
  std::vector<bool> found(classes.size());
  BALLAST_CHECK(for_each_number(targets, classes.size() * width, [&](uint64_t at, double value) -> Status {
    const uint64_t row = at / width;
    const bool one = value == 1;
    if (value != 0 && (!one || found[row])) {
      return bad_array(set, targets,
                       fmt::format("is not one-hot: row {} has {} in column {}{}", row, value, at % width,
                                   one ? ", its second 1" : ""));
    }
    if (one) {
      found[row] = true;
      classes[row] = static_cast<uint32_t>(at % width);
    }
    return {};
  }));
  const auto empty = std::find(found.begin(), found.end(), false);
  if (empty == found.end()) return classes;
  return bad_array(set, targets, fmt::format("is not one-hot: row {} is all zeros", empty - found.begin()));
}

// Rows of shares of classes, one-hot ones among them: at least 0, and together 1.
Result<bool> are_shares(const ArrayColumn& targets) {
  if (targets.shape.rank() != 2 || targets.shape[1] < 2) return false;
  const uint64_t width = targets.shape[1];
  bool shares = true;
  double sum = 0;
  BALLAST_CHECK(for_each_number(targets, targets.shape[0] * width, [&](uint64_t at, double value) -> Status {
    constexpr double kRounding = 1e-4;
    sum = at % width == 0 ? value : sum + value;
    shares = shares && value >= 0 && (at % width + 1 < width || std::abs(sum - 1) <= kRounding);
    return {};
  }));
  return shares;
}

bool is_one_column(const Shape& shape) { return shape.rank() == 1 || (shape.rank() == 2 && shape[1] == 1); }

TargetForm decide_form(TargetForm asked, const ArrayColumn& targets) {
  if (asked != TargetForm::kAuto) return asked;
  return is_integer(targets.dtype) && is_one_column(targets.shape) ? TargetForm::kClasses : TargetForm::kValues;
}

// What the targets are; class indices are checked and kept on their own.
Result<std::vector<uint32_t>> read_targets(const std::string& set, const ArrayColumn& targets,
                                           const ArrayOptions& options, ExampleLayout& layout) {
  const TargetForm form = decide_form(options.target, targets);
  if (form == TargetForm::kValues) {
    layout.targets = TargetKind::kValues;
    layout.target_shape = without_first(targets.shape);
    if (layout.target_shape.rank() == 0) layout.target_shape = Shape{1};
    BALLAST_TRY(layout.shares, are_shares(targets));
    return std::vector<uint32_t>();
  }
  layout.targets = TargetKind::kClasses;
  if (form == TargetForm::kOneHot) {
    if (targets.shape.rank() != 2) return bad_array(set, targets, "is not one-hot: that takes one row per example");
    BALLAST_TRY(auto classes, read_one_hot(set, targets));
    layout.classes = targets.shape[1];
    if (options.classes != 0 && options.classes != layout.classes) {
      return bad_array(set, targets,
                       fmt::format("has {} columns where {} classes were announced", layout.classes, options.classes));
    }
    return classes;
  }
  if (!is_one_column(targets.shape)) {
    return bad_array(set, targets,
                     "cannot be classes: that takes one number per example. One-hot rows and values are "
                     "other kinds of targets");
  }
  BALLAST_TRY(auto classes, read_indices(set, targets, options.classes == 0 ? kMostClasses : options.classes));
  layout.classes =
      options.classes != 0 ? options.classes : uint64_t{*std::max_element(classes.begin(), classes.end())} + 1;
  return classes;
}

}  // namespace

Result<std::shared_ptr<const Dataset>> make_array_dataset(std::string name, ArrayColumn features,
                                                          std::optional<ArrayColumn> targets,
                                                          const ArrayOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<const Dataset>> {
    const auto divisor = static_cast<float>(options.divide_by);
    if (!std::isfinite(divisor) || divisor == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: features cannot be divided by {}", name, options.divide_by));
    }
    BALLAST_CHECK(check_array(name, features));
    ExampleLayout layout;
    BALLAST_TRY(layout.feature_shape, item_shape(name, features, options));
    if (options.target == TargetForm::kNone) targets.reset();
    std::vector<uint32_t> classes;
    if (targets) {
      BALLAST_CHECK(check_array(name, *targets));
      BALLAST_CHECK(check_same_count(name, features, *targets));
      BALLAST_TRY(classes, read_targets(name, *targets, options, layout));
    }
    if (layout.targets == TargetKind::kClasses) targets.reset();
    return std::shared_ptr<const Dataset>(std::make_shared<ArrayDataset>(
        std::move(name), std::move(layout), std::move(features), std::move(targets), std::move(classes), divisor));
  });
}

}  // namespace ballast
