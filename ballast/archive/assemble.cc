#include "ballast/archive/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ballast/archive/convert.h"
#include "ballast/archive/digest.h"
#include "ballast/archive/tie_plan.h"
#include "ballast/io/guard.h"

namespace ballast {

Result<WritePlan> make_full_plan(const Archive& archive, std::vector<std::string>& notes, const PlanOptions& options) {
  return guarded([&]() -> Result<WritePlan> {
    WritePlan plan = make_plan(archive);
    for (std::string& text : find_left_out(archive)) notes.push_back(std::move(text));
    uint32_t last_twin = 0;
    if (options.tie_for != nullptr) {
      BALLAST_CHECK(mark_twins(archive, plan, *options.tie_for, last_twin, options.threads, options.progress));
    }
    BALLAST_CHECK(restore_origin(plan, notes, options.threads, options.progress));
    return plan;
  });
}

namespace {

// ---------------------------------------------------------------- merging

std::string shown(const MetaValue& value) {
  struct Show {
    std::string operator()(const std::string& text) const { return fmt::format("\"{}\"", text.substr(0, 80)); }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(uint64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const MetaArray& array) const { return array.to_text(4); }
  };
  return std::visit(Show(), value);
}

class Merge {
 public:
  Merge(std::vector<MergeInput>& inputs, const MergeOptions& options, MergeReport& report)
      : inputs_(inputs), options_(options), report_(report) {}

  Result<WritePlan> run() {
    start_description();
    for (MergeInput& input : inputs_) prepare(input);
    BALLAST_CHECK(add_tensors());
    for (size_t i = 0; i < inputs_.size(); ++i) add_metadata(i);
    if (!conflicts_.empty()) return conflict_error();
    BALLAST_CHECK(choose_config());
    return std::move(result_);
  }

 private:
  static constexpr size_t kShownConflicts = 20;

  // Spelling is kept only where all inputs spell alike.
  void start_description() {
    const Description& first = inputs_.front().plan.description;
    result_.description.format = first.format;
    result_.description.version = first.version;
    same_format_ = std::ranges::all_of(
        inputs_, [&](const MergeInput& input) { return input.plan.description.format == first.format; });
    const bool same_form = std::ranges::all_of(
        inputs_, [&](const MergeInput& input) { return input.plan.description.stored_form == first.stored_form; });
    if (same_format_ && same_form) result_.description.stored_form = first.stored_form;
  }

  void prepare(MergeInput& input) {
    uint32_t last = last_twin_;
    for (TensorInfo& tensor : input.plan.description.tensors) {
      tensor.name.insert(0, input.prefix);
      if (!same_format_) tensor.set_stored_form({});
      if (tensor.twin == 0) continue;
      tensor.twin += last_twin_;
      last = std::max(last, tensor.twin);
    }
    last_twin_ = last;
  }

  // Tensors by name; where a name stands several times, one is chosen.
  Status add_tensors() {
    std::map<std::string_view, std::vector<std::pair<size_t, size_t>>> by_name;  // (input, tensor)
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto& tensors = inputs_[i].plan.description.tensors;
      for (size_t t = 0; t < tensors.size(); ++t) by_name[tensors[t].name].emplace_back(i, t);
    }
    std::vector<std::vector<bool>> taken;
    for (const MergeInput& input : inputs_) taken.emplace_back(input.plan.providers.size(), true);
    BALLAST_TRY(const auto digests, digest_repeated(by_name));
    for (const auto& [name, places] : by_name) {
      if (places.size() < 2) continue;
      const size_t chosen = choose(name, places, digests);
      for (size_t p = 0; p < places.size(); ++p) taken[places[p].first][places[p].second] = p == chosen;
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      WritePlan& plan = inputs_[i].plan;
      for (size_t t = 0; t < plan.providers.size(); ++t) {
        if (taken[i][t]) result_.add_tensor(plan.description.tensors[t], std::move(plan.providers[t]));
      }
    }
    return {};
  }

  using Place = std::pair<size_t, size_t>;

  template <typename ByName>
  Result<std::map<Place, Digest>> digest_repeated(const ByName& by_name) {
    WritePlan repeated;
    std::vector<Place> order;
    for (const auto& [name, places] : by_name) {
      if (places.size() < 2) continue;
      for (const Place& place : places) {
        const WritePlan& plan = inputs_[place.first].plan;
        repeated.add_tensor(plan.description.tensors[place.second], plan.providers[place.second]);
        order.push_back(place);
      }
    }
    BALLAST_TRY(const auto digests,
                digest_plan(repeated, {.sha256 = false, .threads = options_.threads, .progress = options_.progress}));
    std::map<Place, Digest> found;
    for (size_t i = 0; i < order.size(); ++i) found[order[i]] = digests[i].blake3;
    return found;
  }

  // Position in `places` of the one to take.
  size_t choose(std::string_view name, const std::vector<Place>& places, const std::map<Place, Digest>& digests) {
    const auto differs = [&](const Place& place) { return digests.at(place) != digests.at(places.front()); };
    const auto other = std::ranges::find_if(places, differs);
    if (other == places.end()) {
      ++report_.equal;
      return 0;
    }
    if (options_.prefer == Prefer::kNeither) {
      conflicts_.push_back(fmt::format("tensor \"{}\" is in {} and in {}, with different content", name,
                                       inputs_[places.front().first].name, inputs_[other->first].name));
      return 0;
    }
    ++report_.preferred;
    return options_.prefer == Prefer::kFirst ? 0 : places.size() - 1;
  }

  void add_metadata(size_t input) {
    auto& merged = result_.description.metadata;
    for (const MetaEntry& entry : inputs_[input].plan.description.metadata) {
      const auto [known, is_new] = metadata_.try_emplace(entry.key, Origin{merged.size(), input});
      if (is_new) {
        merged.push_back(entry);
        continue;
      }
      MetaEntry& before = merged[known->second.position];
      if (before == entry) continue;
      if (options_.prefer == Prefer::kNeither) {
        conflicts_.push_back(fmt::format("metadata \"{}\" is {} in {} and {} in {}", entry.key, shown(before.value),
                                         inputs_[known->second.input].name, shown(entry.value), inputs_[input].name));
      } else if (options_.prefer == Prefer::kLast) {
        before = entry;
        known->second.input = input;
      }
    }
  }

  Error conflict_error() const {
    std::string text = "the files disagree:";
    for (size_t i = 0; i < std::min(conflicts_.size(), kShownConflicts); ++i) text += "\n  " + conflicts_[i];
    if (conflicts_.size() > kShownConflicts) {
      text += fmt::format("\n  and {} more", conflicts_.size() - kShownConflicts);
    }
    text += "\nPrefer the first or the last, or keep both under prefixes";
    return make_error(ErrorCode::kInvalidArgument, std::move(text), Remedy::kPreferOne);
  }

  Status choose_config() {
    if (options_.config_from) {
      const MergeInput& input = inputs_[*options_.config_from];
      if (!input.plan.description.config) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: holds no model config", input.name));
      }
      result_.description.config = input.plan.description.config;
      return {};
    }
    const MergeInput* from = nullptr;
    for (const MergeInput& input : inputs_) {
      const auto& config = input.plan.description.config;
      if (!config) continue;
      if (from != nullptr && from->plan.description.config != config && options_.prefer == Prefer::kNeither) {
        return make_error(
            ErrorCode::kInvalidArgument,
            fmt::format("{} and {} hold different model configs; say which one counts", from->name, input.name),
            Remedy::kChooseConfig);
      }
      if (from == nullptr || options_.prefer == Prefer::kLast) from = &input;
    }
    if (from != nullptr) result_.description.config = from->plan.description.config;
    return {};
  }

  struct Origin {
    size_t position;  // in the merged metadata
    size_t input;
  };

  std::vector<MergeInput>& inputs_;
  const MergeOptions& options_;
  MergeReport& report_;
  WritePlan result_;
  std::map<std::string, Origin> metadata_;
  std::vector<std::string> conflicts_;
  uint32_t last_twin_ = 0;
  bool same_format_ = true;
};

// ---------------------------------------------------------------- splitting

PlanPart make_part(const WritePlan& whole, std::string label, const std::vector<size_t>& members) {
  PlanPart part{std::move(label), {}};
  part.plan.description = whole.description;
  part.plan.description.tensors.clear();
  for (const size_t i : members) part.plan.add_tensor(whole.description.tensors[i], whole.providers[i]);
  return part;
}

std::vector<PlanPart> number_parts(const WritePlan& whole, const std::vector<std::vector<size_t>>& groups) {
  std::vector<PlanPart> parts;
  for (size_t i = 0; i < groups.size(); ++i) {
    parts.push_back(make_part(whole, fmt::format("{:05}-of-{:05}", i + 1, groups.size()), groups[i]));
  }
  return parts;
}

Error nothing_to_split() { return make_error(ErrorCode::kInvalidArgument, "there is no tensor to split"); }

}  // namespace

Result<WritePlan> merge_plans(std::vector<MergeInput> inputs, const MergeOptions& options, MergeReport& report) {
  return guarded([&]() -> Result<WritePlan> {
    if (inputs.empty()) return make_error(ErrorCode::kInvalidArgument, "there is nothing to merge");
    return Merge(inputs, options, report).run();
  });
}

Result<std::vector<PlanPart>> split_by_size(const WritePlan& plan, uint64_t bytes) {
  const auto& tensors = plan.description.tensors;
  if (tensors.empty()) return nothing_to_split();
  std::vector<std::vector<size_t>> groups(1);
  uint64_t used = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!groups.back().empty() && (used >= bytes || tensors[i].byte_size > bytes - used)) {
      groups.emplace_back();
      used = 0;
    }
    groups.back().push_back(i);
    used += tensors[i].byte_size;
  }
  return number_parts(plan, groups);
}

Result<std::vector<PlanPart>> split_by_count(const WritePlan& plan, size_t parts) {
  const auto& tensors = plan.description.tensors;
  if (tensors.empty()) return nothing_to_split();
  if (parts == 0 || parts > tensors.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} tensors cannot be split into {} files", tensors.size(), parts));
  }
  uint64_t left = 0;
  for (const TensorInfo& tensor : tensors) left += tensor.byte_size;
  std::vector<std::vector<size_t>> groups;
  size_t next = 0;
  for (size_t part = 0; part < parts; ++part) {
    const size_t parts_left = parts - part;
    const uint64_t share = left / parts_left;
    uint64_t used = 0;
    groups.emplace_back();
    // At least one each; a tensor goes where more than half of it fits.
    while (next < tensors.size() && tensors.size() - next > parts_left - 1) {
      const uint64_t size = tensors[next].byte_size;
      if (!groups.back().empty() && parts_left > 1 && used + size / 2 >= share) break;
      groups.back().push_back(next++);
      used += size;
    }
    left -= used;
  }
  return number_parts(plan, groups);
}

Result<std::vector<PlanPart>> split_by_pattern(const WritePlan& plan, const Pattern& pattern) {
  std::map<std::string, size_t> known;
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;
  bool matched_rest = false;
  bool any_unmatched = false;
  for (size_t i = 0; i < plan.description.tensors.size(); ++i) {
    BALLAST_TRY(const auto found, pattern.first_group(plan.description.tensors[i].name));
    matched_rest = matched_rest || found == kRestLabel;
    any_unmatched = any_unmatched || !found;
    const std::string label = found ? *found : std::string(kRestLabel);
    const auto [entry, is_new] = known.try_emplace(label, groups.size());
    if (is_new) groups.emplace_back(label, std::vector<size_t>());
    groups[entry->second].second.push_back(i);
  }
  if (groups.empty()) return nothing_to_split();
  if (matched_rest && any_unmatched) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("the expression gives a group \"{}\", which is also what tensors are put into that it "
                    "does not match",
                    kRestLabel));
  }
  std::vector<PlanPart> parts;
  for (const auto& [label, members] : groups) parts.push_back(make_part(plan, label, members));
  return parts;
}

}  // namespace ballast
