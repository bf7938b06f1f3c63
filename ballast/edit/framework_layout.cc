#include "ballast/edit/framework_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/edit/rename.h"
#include "ballast/edit/transpose.h"
#include "ballast/formats/netcl/netcl.h"

namespace ballast {

namespace {

struct Framework {
  LinearLayout weights;
  std::string_view scale;  // of a norm
  std::string_view shift;
  char layer_separator;  // between a Sequential's number and the parameter
};

constexpr Framework kPyTorch = {LinearLayout::kOutIn, "weight", "bias", '.'};
constexpr Framework kBurn = {LinearLayout::kInOut, "gamma", "beta", '.'};
constexpr Framework kNetcl = {LinearLayout::kInOut, "gamma", "beta", ':'};

class LayoutAdaptation {
 public:
  LayoutAdaptation(std::string_view name, const Framework& from, const Framework& to, WritePlan& plan,
                   const AdaptOptions& options)
      : name_(name), from_(from), to_(to), plan_(plan), options_(options) {}

  Status run(std::vector<std::string>& notes) {
    BALLAST_CHECK(classify());
    BALLAST_CHECK(settle_ambiguous());
    std::vector<std::string> names;
    for (size_t i = 0; i < guesses_.size(); ++i) names.push_back(new_name(i));
    // Names first: nothing has changed if two of them are the same.
    if (auto renamed = set_names(plan_, std::move(names)); !renamed) {
      return std::move(renamed).error().with_context(name_);
    }
    transpose();
    report(notes);
    return {};
  }

 private:
  Status classify() {
    const bool lend_config = !plan_.description.config && options_.netcl_config;
    if (lend_config) plan_.description.config = ModelConfig{std::string(kNetclSchema), *options_.netcl_config};
    auto guesses = classify_modules(plan_.description, from_.weights, options_.hints);
    if (lend_config) plan_.description.config.reset();
    if (!guesses) return std::move(guesses).error().with_context(name_);
    guesses_ = *std::move(guesses);
    return {};
  }

  // ---- what neither names nor shapes tell

  bool matters(size_t i) const {
    const ModuleGuess& guess = guesses_[i];
    if (!guess.alternative || split_name(tensor(i).name).leaf != "weight") return false;
    return has_role(guess.kind) || has_role(*guess.alternative);
  }
  static bool has_role(ModuleKind kind) { return kind == ModuleKind::kLinear || is_norm(kind); }

  Status settle_ambiguous() {
    std::vector<size_t> open;
    for (size_t i = 0; i < guesses_.size(); ++i) {
      if (!matters(i)) continue;
      ModuleGuess& guess = guesses_[i];
      const bool matrix = guess.kind == ModuleKind::kLinear;
      std::optional<bool> yes = matrix && options_.is_linear ? options_.is_linear(tensor(i)) : std::nullopt;
      if (!yes && options_.ambiguous != Ambiguous::kRefuse) yes = matrix && options_.ambiguous == Ambiguous::kLinear;
      if (!yes) open.push_back(i);
      else guess = {*yes ? guess.kind : ModuleKind::kOther};
    }
    if (!open.empty()) return ambiguous_error(open);
    // The other tensors of a module whose weight is left alone are left alone, too.
    for (ModuleGuess& guess : guesses_) {
      if (guess.alternative) guess = {ModuleKind::kOther};
    }
    return {};
  }

  Error ambiguous_error(const std::vector<size_t>& open) const {
    constexpr size_t kShown = 20;
    std::string text =
        fmt::format("{}: neither name nor shape tells what {} of {} tensors are:", name_, open.size(), guesses_.size());
    for (size_t k = 0; k < std::min(open.size(), kShown); ++k) {
      const TensorInfo& info = tensor(open[k]);
      text += fmt::format("\n  tensor \"{}\" {}: {}", info.name, info.shape.to_string(), guesses_[open[k]].reason);
    }
    if (open.size() > kShown) text += fmt::format("\n  and {} more", open.size() - kShown);
    text += "\nSay what they are, or how to treat all of them.";
    return make_error(ErrorCode::kInvalidArgument, std::move(text), Remedy::kClassifyModules);
  }

  // ---- names

  std::string new_name(size_t i) {
    const SplitName name = split_name(tensor(i).name);
    std::string_view leaf = name.leaf;
    if (is_norm(guesses_[i].kind)) {
      if (leaf == from_.scale) leaf = to_.scale;
      else if (leaf == from_.shift) leaf = to_.shift;
      if (leaf != name.leaf) ++norm_parameters_;
    }
    if (leaf == "num_batches_tracked") ++counters_;
    std::string module(name.module);
    if (is_layer_number(module)) module.back() = to_.layer_separator;
    return module.append(leaf);
  }

  // "12." or "12:": a layer of a Sequential.
  bool is_layer_number(std::string_view module) const {
    if (module.size() < 2 || module.back() != from_.layer_separator) return false;
    return std::ranges::all_of(module.substr(0, module.size() - 1), [](char c) { return c >= '0' && c <= '9'; });
  }

  // ---- payloads

  void transpose() {
    const auto gate = std::make_shared<MemoryGate>();
    for (size_t i = 0; i < guesses_.size(); ++i) {
      const TensorInfo& info = tensor(i);
      if (guesses_[i].kind != ModuleKind::kLinear || split_name(info.name).leaf != "weight") continue;
      if (info.shape.rank() != 2) continue;
      if (!can_transpose(info)) {
        left_alone_.push_back(info.name);
        continue;
      }
      transpose_tensor(plan_, i, gate);
      ++transposed_;
    }
  }

  void report(std::vector<std::string>& notes) const {
    notes.push_back(fmt::format("{}: {} of {} tensors transposed, {} renamed as parameters of norms", name_,
                                transposed_, guesses_.size(), norm_parameters_));
    if (!left_alone_.empty()) {
      notes.push_back(fmt::format("{}: {} packed Linear weights were left as they lie, \"{}\" first", name_,
                                  left_alone_.size(), left_alone_.front()));
    }
    if (counters_ != 0 && from_.scale == kPyTorch.scale) {
      notes.push_back(fmt::format(
          "{}: {} num_batches_tracked kept, which only PyTorch knows; exclude them where they are not wanted", name_,
          counters_));
    }
  }

  const TensorInfo& tensor(size_t i) const { return plan_.description.tensors[i]; }

  std::string_view name_;
  const Framework& from_;
  const Framework& to_;
  WritePlan& plan_;
  const AdaptOptions& options_;
  std::vector<ModuleGuess> guesses_;
  size_t transposed_ = 0;
  size_t norm_parameters_ = 0;
  size_t counters_ = 0;
  std::vector<std::string> left_alone_;
};

}  // namespace

Status adapt_pytorch_to_burn(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return LayoutAdaptation("pytorch-to-burn", kPyTorch, kBurn, plan, options).run(notes);
}

Status adapt_burn_to_pytorch(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return LayoutAdaptation("burn-to-pytorch", kBurn, kPyTorch, plan, options).run(notes);
}

Status adapt_netcl_to_pytorch(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return LayoutAdaptation("netcl-to-pytorch", kNetcl, kPyTorch, plan, options).run(notes);
}

Status adapt_pytorch_to_netcl(WritePlan& plan, const AdaptOptions& options, std::vector<std::string>& notes) {
  return LayoutAdaptation("pytorch-to-netcl", kPyTorch, kNetcl, plan, options).run(notes);
}

}  // namespace ballast
