#include "ballast/archive/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

namespace ballast {

namespace {

using Step = std::array<uint64_t, 4>;  // part of the model, stage, block, position in it

struct NamedStep {
  std::string_view name;
  uint64_t position;
};

// What stands before, inside and after the blocks of gpt.rs's models: ResNet-34, MobileNetV2 and the transformers.
constexpr NamedStep kBefore[] = {{"input.nhwc", 0}, {"stem.conv", 1},    {"stem.conv1", 1}, {"stem.relu", 2},
                                 {"stem.relu6", 2}, {"stem.maxpool", 3}, {"tokens", 0},     {"tok_embeddings", 1}};
constexpr NamedStep kAfter[] = {{"head.conv", 0},  {"head.relu6", 1},   {"avgpool", 2}, {"flatten", 3},
                                {"final_norm", 0}, {"final_hidden", 1}, {"logits", 4}};
constexpr NamedStep kLayer[] = {{"downsample", 0}, {"conv1", 1}, {"relu1", 2}, {"conv2", 3}, {"add", 4}, {"relu2", 5}};
constexpr NamedStep kBlock[] = {{"expand", 0},
                                {"expand.relu6", 1},
                                {"depthwise", 2},
                                {"depthwise.relu6", 3},
                                {"project", 4},
                                {"add", 5},
                                {"norm_1", 0},
                                {"attention.qkv", 1},
                                {"attention.qkv_rope", 2},
                                {"attention.context", 3},
                                {"attention.output", 4},
                                {"residual", 5},
                                {"norm_2", 6},
                                {"feed_forward.output", 7},
                                {"output", 8}};

std::optional<uint64_t> position_in(std::span<const NamedStep> steps, std::string_view name) {
  for (const NamedStep& step : steps) {
    if (step.name == name) return step.position;
  }
  return std::nullopt;
}

// Takes "12." from the front.
std::optional<uint64_t> take_number(std::string_view& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto length = static_cast<size_t>(end - text.data());
  if (error != std::errc() || length == text.size() || text[length] != '.') return std::nullopt;
  text.remove_prefix(length + 1);
  return number;
}

std::optional<Step> step_of(std::string_view name) {
  if (const auto position = position_in(kBefore, name)) return Step{0, 0, 0, *position};
  if (const auto position = position_in(kAfter, name)) return Step{2, 0, 0, *position};
  if (name.starts_with("layer")) {
    name.remove_prefix(5);
    const auto stage = take_number(name);
    const auto block = stage ? take_number(name) : std::nullopt;
    const auto position = block ? position_in(kLayer, name) : std::nullopt;
    return position ? std::optional(Step{1, *stage, *block, *position}) : std::nullopt;
  }
  if (!name.starts_with("blocks.")) return std::nullopt;
  name.remove_prefix(7);
  const auto block = take_number(name);
  const auto position = block ? position_in(kBlock, name) : std::nullopt;
  return position ? std::optional(Step{1, *block, 0, *position}) : std::nullopt;
}

bool sorted_by_name(const Archive& archive) {
  return std::ranges::is_sorted(archive.tensors(), {},
                                [](const TensorInfo& tensor) -> const std::string& { return tensor.name; });
}

const std::string& name_of(const DiffEntry& entry) {
  return entry.kind == DiffKind::kOnlyInB ? entry.name_b : entry.name_a;
}

// The entries by the steps their names tell; nullopt when one tells none.
std::optional<std::vector<size_t>> order_by_names(const DiffReport& diff) {
  std::vector<std::pair<Step, size_t>> steps;
  for (size_t i = 0; i < diff.entries.size(); ++i) {
    const auto step = step_of(name_of(diff.entries[i]));
    if (!step) return std::nullopt;
    steps.emplace_back(*step, i);
  }
  std::ranges::sort(steps);
  std::vector<size_t> order;
  for (const auto& [step, entry] : steps) order.push_back(entry);
  return order;
}

// A's order, and what only B has behind its predecessor in B.
std::vector<size_t> order_as_stored(const Archive& b, const DiffReport& diff) {
  std::map<std::string_view, size_t> entry_of_b;
  for (size_t i = 0; i < diff.entries.size(); ++i) {
    if (diff.entries[i].kind != DiffKind::kOnlyInA) entry_of_b.emplace(diff.entries[i].name_b, i);
  }
  constexpr size_t kFront = SIZE_MAX;
  std::map<size_t, std::vector<size_t>> behind;  // entry of A, or kFront -> what follows it only in B
  size_t anchor = kFront;
  for (const TensorInfo& tensor : b.tensors()) {
    const auto found = entry_of_b.find(tensor.name);
    if (found == entry_of_b.end()) continue;
    if (diff.entries[found->second].kind == DiffKind::kOnlyInB) behind[anchor].push_back(found->second);
    else anchor = found->second;
  }
  std::vector<size_t> order = behind[kFront];
  for (size_t i = 0; i < diff.entries.size(); ++i) {
    if (diff.entries[i].kind == DiffKind::kOnlyInB) continue;
    order.push_back(i);
    if (const auto found = behind.find(i); found != behind.end()) {
      order.insert(order.end(), found->second.begin(), found->second.end());
    }
  }
  return order;
}

bool is_beyond(const DiffEntry& entry) {
  switch (entry.kind) {
    case DiffKind::kChanged: return !entry.change.within_tolerance;
    case DiffKind::kTransposed: return true;
    default: return false;
  }
}

}  // namespace

TraceReport order_trace(const Archive& a, const Archive& b, const DiffReport& diff) {
  TraceReport report;
  std::optional<std::vector<size_t>> by_names;
  if (sorted_by_name(a)) by_names = order_by_names(diff);
  report.by_names = by_names.has_value();
  report.order = by_names ? std::move(*by_names) : order_as_stored(b, diff);
  for (const size_t i : report.order) {
    const DiffEntry& entry = diff.entries[i];
    if (!report.first_beyond && is_beyond(entry)) report.first_beyond = i;
    const double error = entry.change.max_abs;
    if (entry.kind != DiffKind::kChanged || !entry.change.comparable || !std::isfinite(error)) continue;
    if (!report.largest || error > diff.entries[*report.largest].change.max_abs) report.largest = i;
  }
  return report;
}

}  // namespace ballast
