#include "ballast/training/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ballast/io/guard.h"
#include "ballast/training/batch_order.h"

namespace ballast {

namespace {

Status check_room(const std::string& name, std::string_view what, uint64_t have, uint64_t want) {
  if (have == want) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: room for {} {} was given where the batch has {}", name, have, what, want));
}

}  // namespace

Status Dataset::fill(std::span<const uint64_t> examples, const BatchBuffers& out) const {
  for (const uint64_t example : examples) {
    if (example < size()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: example {} was asked for, but there are {}", name(), example, size()));
  }
  const ExampleLayout& shape = layout();
  const uint64_t features = examples.size() * shape.feature_count();
  const uint64_t targets = examples.size() * shape.target_count();
  const bool values = shape.features == FeatureKind::kValues;
  BALLAST_CHECK(check_room(name(), "features", values ? out.features.size() : out.feature_ids.size(), features));
  if (shape.targets == TargetKind::kValues)
    BALLAST_CHECK(check_room(name(), "target values", out.targets.size(), targets));
  if (shape.targets == TargetKind::kClasses || shape.targets == TargetKind::kTokens)
    BALLAST_CHECK(check_room(name(), "target indices", out.target_ids.size(), targets));
  return fill_checked(examples, out);
}

// ---------------------------------------------------------------- Batch

Batch::Batch(const ExampleLayout& layout, uint64_t most_examples)
    : most_(most_examples), feature_count_(layout.feature_count()), target_count_(layout.target_count()) {
  const auto resize = [&](auto& list, bool used, uint64_t each) { list.resize(used ? most_ * each : 0); };
  resize(features_, layout.features == FeatureKind::kValues, feature_count_);
  resize(feature_ids_, layout.features == FeatureKind::kTokens, feature_count_);
  resize(targets_, layout.targets == TargetKind::kValues, target_count_);
  resize(target_ids_, layout.targets == TargetKind::kClasses || layout.targets == TargetKind::kTokens, target_count_);
}

Status Batch::load(const Dataset& dataset, std::span<const uint64_t> examples) {
  if (examples.size() > most_) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: a batch of {} examples in room for {}", dataset.name(), examples.size(), most_));
  }
  size_ = examples.size();
  const auto part = [&](auto& list, uint64_t each) {
    return std::span(list).first(std::min<uint64_t>(list.size(), size_ * each));
  };
  return dataset.fill(examples, {part(features_, feature_count_), part(feature_ids_, feature_count_),
                                 part(targets_, target_count_), part(target_ids_, target_count_)});
}

// ---------------------------------------------------------------- names of classes

namespace {

class NamedClasses final : public Dataset {
 public:
  NamedClasses(std::shared_ptr<const Dataset> examples, std::vector<std::string> names)
      : examples_(std::move(examples)), names_(std::move(names)) {}

  const ExampleLayout& layout() const override { return examples_->layout(); }
  uint64_t size() const override { return examples_->size(); }
  const std::string& name() const override { return examples_->name(); }
  std::span<const std::string> class_names() const override { return names_; }

 private:
  Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const override {
    return examples_->fill(examples, out);
  }

  std::shared_ptr<const Dataset> examples_;
  std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<const Dataset> with_class_names(std::shared_ptr<const Dataset> dataset,
                                                std::vector<std::string> names) {
  return std::make_shared<NamedClasses>(std::move(dataset), std::move(names));
}

// ---------------------------------------------------------------- splitting

namespace {

// Part of another set: positions [first, first + count) of a permutation of it, or of its own order.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::optional<IndexPermutation> permutation, uint64_t first,
         uint64_t count)
      : whole_(std::move(whole)), permutation_(permutation), first_(first), count_(count) {}

  const ExampleLayout& layout() const override { return whole_->layout(); }
  uint64_t size() const override { return count_; }
  const std::string& name() const override { return whole_->name(); }
  std::span<const std::string> class_names() const override { return whole_->class_names(); }

 private:
  // A few examples at a time, so that their numbers in the whole set need no memory of their own.
  Status fill_checked(std::span<const uint64_t> examples, const BatchBuffers& out) const override {
    std::array<uint64_t, 64> translated;
    for (size_t begin = 0; begin < examples.size(); begin += translated.size()) {
      const size_t count = std::min(translated.size(), examples.size() - begin);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t position = first_ + examples[begin + i];
        translated[i] = permutation_ ? (*permutation_)(position) : position;
      }
      const auto part = [&](auto span, uint64_t each) {
        return span.empty() ? span : span.subspan(begin * each, count * each);
      };
      const uint64_t features = layout().feature_count();
      const uint64_t targets = layout().target_count();
      BALLAST_CHECK(whole_->fill(std::span(translated).first(count),
                                 {part(out.features, features), part(out.feature_ids, features),
                                  part(out.targets, targets), part(out.target_ids, targets)}));
    }
    return {};
  }

  std::shared_ptr<const Dataset> whole_;
  std::optional<IndexPermutation> permutation_;
  uint64_t first_;
  uint64_t count_;
};

// The choice of what is held out must not be that of the first epoch.
constexpr uint64_t kSplitStream = 0x73706C6974U;

}  // namespace

Result<SplitDatasets> split_dataset(std::shared_ptr<const Dataset> dataset, double held_out,
                                    std::optional<uint64_t> seed) {
  return guarded([&]() -> Result<SplitDatasets> {
    const uint64_t size = dataset->size();
    if (!(held_out > 0 && held_out < 1)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: a part of {} cannot be held out; it must be above 0 and below 1",
                                    dataset->name(), held_out));
    }
    const auto held = static_cast<uint64_t>(std::llround(static_cast<double>(size) * held_out));
    if (held == 0 || held >= size) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: of {} examples, {} would be held out; both parts need at least one",
                                    dataset->name(), size, held));
    }
    std::optional<IndexPermutation> permutation;
    if (seed) permutation.emplace(size, *seed ^ kSplitStream);
    return SplitDatasets{std::make_shared<Subset>(dataset, permutation, 0, size - held),
                         std::make_shared<Subset>(dataset, permutation, size - held, held)};
  });
}

}  // namespace ballast
