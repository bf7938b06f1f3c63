#include "ballast/edit/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "ballast/edit/rename.h"
#include "ballast/edit/similarity.h"
#include "ballast/io/guard.h"

namespace ballast {

namespace {

// Looking for what a missing name may have meant must not take longer than the work itself.
constexpr size_t kMissingLookedAt = 50;
constexpr size_t kCandidatesLookedAt = 5000;
constexpr size_t kApplyNamesShown = 20;

// ---------------------------------------------------------------- what fits

// Burn's three kinds of tensors; anything else fits only itself.
enum class Kind : uint8_t { kFloat, kInteger, kBool, kComplex, kBytes };

Kind kind_of(DType dtype) {
  if (dtype == DType::kQFloat) return Kind::kFloat;
  switch (dtype_info(dtype).kind) {
    case DTypeKind::kFloat:
    case DTypeKind::kBlock: return Kind::kFloat;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned: return Kind::kInteger;
    case DTypeKind::kBool: return Kind::kBool;
    case DTypeKind::kComplex: return Kind::kComplex;
    case DTypeKind::kBytes: break;
  }
  return Kind::kBytes;
}

bool is_transpose_of(const Shape& a, const Shape& b) {
  return a.rank() == 2 && b.rank() == 2 && a[0] == b[1] && a[1] == b[0];
}

// Whether the target may change its dtype to take the source's payload, or has memory of a fixed size.
enum class TargetPlace : uint8_t { kPlan, kMemory };

// Why the source's tensor cannot stand in the target's place; empty when it can.
std::string misfit(const TensorInfo& target, const TensorInfo& source, TargetPlace place) {
  if (!(target.shape == source.shape)) {
    std::string text =
        fmt::format("the weights have shape {}, the model {}", source.shape.to_string(), target.shape.to_string());
    if (is_transpose_of(target.shape, source.shape)) text += "; it seems transposed, which an adapter can undo";
    return text;
  }
  const bool same_type = target.type_name() == source.type_name();
  const bool castable =
      place == TargetPlace::kPlan ? kind_of(target.dtype) != Kind::kBytes : can_cast(source.dtype, target.dtype);
  if (kind_of(target.dtype) != kind_of(source.dtype) || (!same_type && !castable)) {
    return fmt::format("the weights have dtype {}, the model {}", source.type_name(), target.type_name());
  }
  return {};
}

// ---------------------------------------------------------------- matching

// The source, edited and adapted, and under which names its tensors are found.
class Matching {
 public:
  Matching(std::span<const TensorInfo> targets, TargetPlace place, WritePlan source, const ApplyOptions& options)
      : targets_(targets), place_(place), source_(std::move(source)), options_(options) {}

  Status run() {
    for (const PlanEdit& edit : options_.edits) BALLAST_CHECK(edit(source_, result_.notes));
    names_before_.reserve(source_.providers.size());
    for (const TensorInfo& tensor : source_.description.tensors) names_before_.push_back(tensor.name);
    if (options_.adapter != nullptr) BALLAST_CHECK(adapt());
    for (size_t i = 0; i < source_.providers.size(); ++i) {
      by_name_.emplace(source_.description.tensors[i].name, i);
      by_name_before_.emplace(names_before_[i], i);
    }
    used_.resize(source_.providers.size(), false);
    for (size_t i = 0; i < targets_.size(); ++i) BALLAST_CHECK(match(i));
    for (size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i]) result_.unused.push_back(names_before_[i]);
    }
    find_near_misses();
    refuse();
    return {};
  }

  struct Pair {
    size_t target;
    size_t source;
  };
  const std::vector<Pair>& pairs() const { return pairs_; }
  WritePlan& source() { return source_; }
  ApplyResult take_result() { return std::move(result_); }
  bool refused() const { return result_.refused.has_value(); }

 private:
  Status adapt() {
    std::unordered_map<std::string, const Shape*> shapes;
    const auto plain = [](std::string name) {
      std::ranges::replace(name, ':', '.');
      return name;
    };
    for (const TensorInfo& target : targets_) shapes.emplace(plain(target.name), &target.shape);
    AdaptOptions options = options_.adapt;
    if (!options.is_linear) {
      options.is_linear = [&](const TensorInfo& tensor) -> std::optional<bool> {
        const auto found = shapes.find(plain(tensor.name));
        if (found == shapes.end()) return std::nullopt;
        const bool as_it_is = *found->second == tensor.shape;
        const bool turned = is_transpose_of(*found->second, tensor.shape);
        return as_it_is == turned ? std::nullopt : std::optional(turned);
      };
    }
    return options_.adapter->apply(source_, options, result_.notes);
  }

  std::optional<size_t> find(const std::string& name) const {
    for (const auto* names : {&by_name_, &by_name_before_}) {
      if (const auto found = names->find(name); found != names->end()) return found->second;
    }
    return std::nullopt;
  }

  std::optional<size_t> find_for(const std::string& target) const {
    auto found = find(target);
    if (!found && options_.skip_enum_variants) found = find(without_enum_variants(target));
    return found;
  }

  Status match(size_t index) {
    const TensorInfo& target = targets_[index];
    const auto found = find_for(target.name);
    if (found) used_[*found] = true;
    BALLAST_TRY(const bool wanted, options_.filter.matches(target));
    BALLAST_TRY(const bool unwanted, options_.exclude.matches(target));
    if (!wanted || unwanted) {
      result_.skipped.push_back(target.name);
    } else if (!found) {
      result_.missing.push_back(target.name);
    } else if (std::string why = misfit(target, source_.description.tensors[*found], place_); !why.empty()) {
      result_.errors.push_back({target.name, std::move(why)});
    } else {
      result_.applied.push_back(target.name);
      pairs_.push_back({index, *found});
    }
    return {};
  }

  void find_near_misses() {
    const size_t missing = std::min(result_.missing.size(), kMissingLookedAt);
    const size_t candidates = std::min(result_.unused.size(), kCandidatesLookedAt);
    for (size_t i = 0; i < missing; ++i) {
      const std::string plain = without_enum_variants(result_.missing[i]);
      NearMiss best = {result_.missing[i], {}, 0};
      for (size_t j = 0; j < candidates; ++j) {
        const double similarity = jaro_similarity(plain, without_enum_variants(result_.unused[j]));
        if (similarity <= best.similarity) continue;
        best.similarity = similarity;
        best.candidate = result_.unused[j];
      }
      if (best.similarity >= kNearMiss) result_.near_misses.push_back(std::move(best));
    }
  }

  void refuse() {
    if (options_.validate && !result_.errors.empty()) {
      std::string text = fmt::format("{} of {} tensors do not fit:", result_.errors.size(), targets_.size());
      for (size_t i = 0; i < std::min(result_.errors.size(), kApplyNamesShown); ++i) {
        text += fmt::format("\n  tensor \"{}\": {}", result_.errors[i].name, result_.errors[i].message);
      }
      if (result_.errors.size() > kApplyNamesShown)
        text += fmt::format("\n  and {} more", result_.errors.size() - kApplyNamesShown);
      result_.refused = make_error(ErrorCode::kInvalidArgument, std::move(text));
    } else if (!options_.allow_partial && !result_.missing.empty()) {
      result_.refused = make_error(ErrorCode::kInvalidArgument, missing_text());
    }
  }

  std::string missing_text() const {
    std::string text = fmt::format("the weights lack {} of {} tensors:", result_.missing.size(), targets_.size());
    auto miss = result_.near_misses.begin();
    for (size_t i = 0; i < std::min(result_.missing.size(), kApplyNamesShown); ++i) {
      text += fmt::format("\n  \"{}\"", result_.missing[i]);
      if (miss == result_.near_misses.end() || miss->missing != result_.missing[i]) continue;
      text += fmt::format("; did you mean \"{}\"?", miss->candidate);
      ++miss;
    }
    if (result_.missing.size() > kApplyNamesShown) {
      text += fmt::format("\n  and {} more", result_.missing.size() - kApplyNamesShown);
    }
    return text;
  }

  std::span<const TensorInfo> targets_;
  TargetPlace place_;
  WritePlan source_;
  const ApplyOptions& options_;
  std::vector<std::string> names_before_;  // of the source, before the adapter
  std::unordered_map<std::string, size_t> by_name_;
  std::unordered_map<std::string, size_t> by_name_before_;
  std::vector<bool> used_;
  std::vector<Pair> pairs_;
  ApplyResult result_;
};

// ---------------------------------------------------------------- putting it there

Status replace_tensor(WritePlan& target, size_t at, const TensorInfo& source, TensorProvider provider,
                      const ApplyOptions& options) {
  TensorInfo& info = target.description.tensors[at];
  const DType before = info.dtype;
  if (options.restore_ids && source.param_id) info.param_id = source.param_id;
  if (info.type_name() != source.type_name()) info.set_stored_form({});
  info.dtype = source.dtype;
  info.byte_size = source.byte_size;
  info.set_scheme(source.scheme());
  target.providers[at] = std::move(provider);
  const bool takes_form = kind_of(before) == Kind::kBool || options.cast_to_target;
  if (takes_form && before != source.dtype && can_cast(source.dtype, before))
    return cast_logged(target, at, before, options.casts);
  return {};
}

Status fill_slot(TensorSlot& slot, const TensorInfo& source, const TensorProvider& provider,
                 const ApplyOptions& options) {
  WritePlan one;
  one.add_tensor(source, provider);
  if (source.dtype != slot.info.dtype) BALLAST_CHECK(cast_logged(one, 0, slot.info.dtype, options.casts));
  SpanSink memory(slot.memory);
  BALLAST_CHECK(one.providers[0](memory));
  BALLAST_CHECK(memory.finish());
  if (options.restore_ids && source.param_id) slot.info.param_id = source.param_id;
  return {};
}

}  // namespace

Result<ApplyResult> apply_to_plan(WritePlan& target, WritePlan source, const ApplyOptions& options) {
  return guarded([&]() -> Result<ApplyResult> {
    Matching matching(target.description.tensors, TargetPlace::kPlan, std::move(source), options);
    BALLAST_CHECK(matching.run());
    if (matching.refused()) return matching.take_result();
    for (const Matching::Pair& pair : matching.pairs()) {
      // Copied: two tensors of the target may take the same of the source.
      BALLAST_CHECK(replace_tensor(target, pair.target, matching.source().description.tensors[pair.source],
                                   matching.source().providers[pair.source], options));
    }
    return matching.take_result();
  });
}

PlanEdit apply_weights(WritePlan source, ApplyOptions options, std::shared_ptr<ApplyResult> result) {
  return [source = std::move(source), options = std::move(options), result = std::move(result)](
             WritePlan& plan, std::vector<std::string>& notes) -> Status {
    BALLAST_TRY(*result, apply_to_plan(plan, source, options));
    if (result->refused) return *result->refused;
    notes.insert(notes.end(), result->notes.begin(), result->notes.end());
    return {};
  };
}

Result<ApplyResult> apply_to_memory(std::span<TensorSlot> slots, WritePlan source, const ApplyOptions& options) {
  return guarded([&]() -> Result<ApplyResult> {
    std::vector<TensorInfo> targets;
    for (const TensorSlot& slot : slots) {
      targets.push_back(slot.info);
      if (slot.memory.size() == slot.info.byte_size) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("slot \"{}\" has {} bytes, its tensor {}", slot.info.name, slot.memory.size(),
                                    slot.info.byte_size));
    }
    Matching matching(targets, TargetPlace::kMemory, std::move(source), options);
    BALLAST_CHECK(matching.run());
    if (matching.refused()) return matching.take_result();
    for (const Matching::Pair& pair : matching.pairs()) {
      TensorSlot& slot = slots[pair.target];
      const WritePlan& from = matching.source();
      auto status = fill_slot(slot, from.description.tensors[pair.source], from.providers[pair.source], options);
      if (!status) {
        return std::move(status).error().with_context(fmt::format("tensor \"{}\"", slot.info.name));
      }
    }
    return matching.take_result();
  });
}

}  // namespace ballast
