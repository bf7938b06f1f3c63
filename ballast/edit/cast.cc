#include "ballast/edit/cast.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ballast/archive/cast_tensor.h"
#include "ballast/archive/pattern.h"

namespace ballast {

namespace {

constexpr size_t kCastNamesShown = 20;

// ---------------------------------------------------------------- by kind of module

class HalfPrecision {
 public:
  HalfPrecision(const HalfOptions& options, const std::shared_ptr<CastLog>& log) : options_(options), log_(log) {
    on_.fill(true);
    on_[static_cast<size_t>(ModuleKind::kBatchNorm)] = false;
    on_[static_cast<size_t>(ModuleKind::kOther)] = false;
    for (const ModuleKind kind : options.with) on_[static_cast<size_t>(kind)] = true;
    for (const ModuleKind kind : options.without) on_[static_cast<size_t>(kind)] = false;
  }

  Status run(WritePlan& plan, std::vector<std::string>& notes) {
    BALLAST_TRY(const auto keep, Pattern::compile_all(options_.keep));
    BALLAST_TRY(const auto guesses, classify_modules(plan.description, LinearLayout::kUnknown, options_.hints));
    std::vector<size_t> open;
    std::vector<std::pair<size_t, DType>> chosen;
    for (size_t i = 0; i < guesses.size(); ++i) {
      const TensorInfo& info = plan.description.tensors[i];
      const auto to = target_of(info.dtype);
      if (!to) continue;
      BALLAST_TRY(const bool kept, any_found(keep, info.name));
      const auto yes = kept ? std::optional(false) : decide(guesses[i]);
      if (!yes) open.push_back(i);
      else count(guesses[i].kind, info, *to, *yes);
      if (yes.value_or(false)) chosen.emplace_back(i, *to);
    }
    if (!open.empty()) return ambiguous_error(plan.description, guesses, open);
    for (const auto& [index, to] : chosen) BALLAST_CHECK(cast_logged(plan, index, to, log_));
    report(notes);
    return {};
  }

 private:
  bool is_on(ModuleKind kind) const { return on_[static_cast<size_t>(kind)]; }

  std::optional<DType> target_of(DType from) const {
    if (from == DType::kF32 && options_.direction != HalfDirection::kToFull) return DType::kF16;
    if (from == DType::kF16 && options_.direction != HalfDirection::kToHalf) return DType::kF32;
    return std::nullopt;
  }

  std::optional<bool> decide(const ModuleGuess& guess) const {
    const bool yes = is_on(guess.kind);
    if (!guess.alternative || is_on(*guess.alternative) == yes) return yes;
    if (options_.ambiguous == Ambiguous::kRefuse) return std::nullopt;
    return yes && options_.ambiguous == Ambiguous::kLinear && guess.kind == ModuleKind::kLinear;
  }

  void count(ModuleKind kind, const TensorInfo& info, DType to, bool yes) {
    if (!yes) {
      if (left_.empty()) first_left_ = info.name;
      ++left_[kind];
    } else if (to == DType::kF16) {
      ++halved_[kind];
    } else {
      ++widened_[kind];
    }
  }

  static Error ambiguous_error(const Description& description, const std::vector<ModuleGuess>& guesses,
                               const std::vector<size_t>& open) {
    std::string text =
        fmt::format("half precision: {} tensors could be of a module that is converted or not:", open.size());
    for (size_t k = 0; k < std::min(open.size(), kCastNamesShown); ++k) {
      const ModuleGuess& guess = guesses[open[k]];
      text += fmt::format("\n  tensor \"{}\": {} or {}", description.tensors[open[k]].name,
                          module_kind_name(guess.kind), module_kind_name(*guess.alternative));
    }
    if (open.size() > kCastNamesShown) text += fmt::format("\n  and {} more", open.size() - kCastNamesShown);
    text += "\nSay what they are, or how to treat all of them.";
    return make_error(ErrorCode::kInvalidArgument, std::move(text), Remedy::kClassifyModules);
  }

  using Counts = std::map<ModuleKind, size_t>;

  static std::string counts_text(const Counts& counts) {
    std::string text;
    for (const auto& [kind, count] : counts) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, module_kind_name(kind));
    }
    return text;
  }

  void report(std::vector<std::string>& notes) const {
    if (!halved_.empty()) notes.push_back("half precision: f32 -> f16, tensors of " + counts_text(halved_));
    if (!widened_.empty()) notes.push_back("half precision: f16 -> f32, tensors of " + counts_text(widened_));
    if (!left_.empty()) {
      notes.push_back(fmt::format("half precision: left as they are: tensors of {} (\"{}\" first)", counts_text(left_),
                                  first_left_));
    }
    if (halved_.empty() && widened_.empty()) notes.emplace_back("half precision: nothing to convert");
  }

  const HalfOptions& options_;
  const std::shared_ptr<CastLog>& log_;
  std::array<bool, static_cast<size_t>(ModuleKind::kOther) + 1> on_{};
  Counts halved_;
  Counts widened_;
  Counts left_;
  std::string first_left_;
};

}  // namespace

std::vector<TensorCast> CastLog::casts() const {
  const std::lock_guard lock(mutex_);
  return casts_;
}

CastReport CastLog::total() const {
  const std::lock_guard lock(mutex_);
  CastReport total;
  for (const TensorCast& cast : casts_) {
    if (cast.report) total.merge(*cast.report);
  }
  return total;
}

size_t CastLog::add(std::string name, DType from, DType to) {
  const std::lock_guard lock(mutex_);
  casts_.push_back({std::move(name), from, to, std::nullopt});
  return casts_.size() - 1;
}

void CastLog::set(size_t cast, const CastReport& report) {
  const std::lock_guard lock(mutex_);
  casts_[cast].report = report;
}

Status cast_logged(WritePlan& plan, size_t index, DType to, const std::shared_ptr<CastLog>& log) {
  if (!log) return cast_tensor(plan, index, to);
  const TensorInfo& info = plan.description.tensors[index];
  const size_t entry = log->add(info.name, info.dtype, to);
  return cast_tensor(plan, index, to, [log, entry](const CastReport& report) { log->set(entry, report); });
}

bool is_castable_float(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kFlex32 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

PlanEdit cast_floats(FloatCastOptions options, std::shared_ptr<CastLog> log) {
  return
      [options = std::move(options), log = std::move(log)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
        if (!is_castable_float(options.to)) {
          return make_error(ErrorCode::kInvalidArgument,
                            fmt::format("floats are cast to f64, f32, f16 or bf16, not to {}", dtype_name(options.to)));
        }
        BALLAST_TRY(const auto keep, Pattern::compile_all(options.keep));
        const std::vector<TensorInfo>& tensors = plan.description.tensors;
        size_t cast = 0;
        size_t already = 0;
        size_t kept = 0;
        for (size_t i = 0; i < tensors.size(); ++i) {
          if (!is_castable_float(tensors[i].dtype)) continue;
          BALLAST_TRY(const bool keeps, any_found(keep, tensors[i].name));
          if (keeps) {
            ++kept;
          } else if (tensors[i].dtype == options.to) {
            ++already;
          } else {
            BALLAST_CHECK(cast_logged(plan, i, options.to, log));
            ++cast;
          }
        }
        notes.push_back(fmt::format("cast to {}: {} of {} tensors; {} had that type, {} kept by name, {} are no floats",
                                    dtype_name(options.to), cast, tensors.size(), already, kept,
                                    tensors.size() - cast - already - kept));
        return {};
      };
}

PlanEdit cast_half(HalfOptions options, std::shared_ptr<CastLog> log) {
  return [options = std::move(options), log = std::move(log)](WritePlan& plan, std::vector<std::string>& notes) {
    return HalfPrecision(options, log).run(plan, notes);
  };
}

}  // namespace ballast
