#include "ballast/edit/name_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace ballast {

namespace {

constexpr size_t kMostListed = 6;

std::string with_prefix(std::string_view pattern, const NameStyle& style) {
  if (pattern.starts_with('@')) return std::string(style.prefix) + std::string(pattern.substr(1));
  if (pattern.starts_with("lm_head")) return std::string(style.head_prefix) + std::string(pattern);
  return std::string(pattern);
}

std::vector<SlotPattern> fold_slots(const std::string& convolution, const std::string& norm) {
  return {{convolution + ".weight"},    {norm + ".weight"},      {norm + ".bias"},
          {norm + ".running_mean"},     {norm + ".running_var"}, {norm + ".num_batches_tracked", /*optional=*/true},
          {convolution + ".bias", true}};
}

// Where a name stands in the table.
struct NamePlace {
  size_t rule;
  size_t slot;
  NameNumbers numbers;
};

// All patterns of a kind on one side, ready to be tried.
class Matcher {
 public:
  Matcher(const NamedModel& kind, const NameStyle& style, Side side) {
    for (const NameRule& rule : kind.rules) rules_.push_back(slot_patterns(rule, style, side));
    if (side == Side::kGptrs) return;
    for (const std::string_view pattern : kind.ignored) ignored_.push_back(with_prefix(pattern, style));
  }

  std::optional<NamePlace> place(std::string_view name) const {
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      for (size_t slot = 0; slot < rules_[rule].size(); ++slot) {
        if (const auto numbers = match_name(rules_[rule][slot].pattern, name)) return NamePlace{rule, slot, *numbers};
      }
    }
    return std::nullopt;
  }

  bool ignores(std::string_view name) const {
    return std::ranges::any_of(ignored_, [&](const auto& pattern) { return match_name(pattern, name).has_value(); });
  }

 private:
  std::vector<std::vector<SlotPattern>> rules_;
  std::vector<std::string> ignored_;
};

// Rows whose names begin alike up to their last number exist together or not at all.
std::string_view family_of(const NameRule& rule) {
  const size_t brace = rule.gptrs.rfind('}');
  return brace == std::string_view::npos ? std::string_view() : rule.gptrs.substr(0, brace + 1);
}

// The first of many names, and how many there are.
struct NameList {
  std::vector<std::string> names;
  size_t count = 0;

  bool has_room() const { return names.size() < kMostListed; }
};

std::string listed(const NameList& list) {
  std::string text = fmt::format("\"{}\"", fmt::join(list.names, "\", \""));
  if (list.count > list.names.size()) text += fmt::format(" and {} more", list.count - list.names.size());
  return text;
}

class CompletenessCheck {
 public:
  CompletenessCheck(const NameGroups& groups, Side side) : groups_(groups), side_(side) {
    for (const NameGroup& group : groups.groups) {
      found_.insert({group.rule, group.numbers});
      if (!group.rule->optional) families_[family_of(*group.rule)].insert(group.numbers);
    }
    families_[""].insert(NameNumbers{});
  }

  // A hostile file may lack millions.
  const NameList& missing() {
    for (const NameRule& rule : groups_.kind->rules) {
      if (rule.optional || (side_ == Side::kHuggingFace && rule.change == NameChange::kHead)) continue;
      for (const NameNumbers& numbers : families_[family_of(rule)]) {
        if (!found_.contains({&rule, numbers})) add(rule, numbers, 0);
      }
    }
    for (const NameGroup& group : groups_.groups) add_missing_slots(group);
    return missing_;
  }

  // The first block that is not there although a later one is.
  std::optional<uint32_t> gap() const {
    for (const auto& [family, members] : families_) {
      if (members.empty() || members.begin()->count != 1) continue;
      uint32_t expected = groups_.kind->first_block;
      for (const NameNumbers& numbers : members) {
        if (numbers.values[0] != expected) return expected;
        ++expected;
      }
    }
    return std::nullopt;
  }

 private:
  void add(const NameRule& rule, const NameNumbers& numbers, size_t slot) {
    if (missing_.has_room())
      missing_.names.push_back(fill_name(slot_patterns(rule, groups_.style, side_)[slot].pattern, numbers));
    ++missing_.count;
  }

  void add_missing_slots(const NameGroup& group) {
    const auto patterns = slot_patterns(*group.rule, groups_.style, side_);
    for (size_t slot = 0; slot < patterns.size(); ++slot) {
      if (!group.slots[slot] && !patterns[slot].optional) add(*group.rule, group.numbers, slot);
    }
  }

  const NameGroups& groups_;
  Side side_;
  std::set<std::pair<const NameRule*, NameNumbers>> found_;
  std::map<std::string_view, std::set<NameNumbers>> families_;
  NameList missing_;
};

// "h.3.attn" -> "h.{}.attn"
std::string with_braces(std::string_view name) {
  std::string text;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    text += number ? "{}" : part;
    if (end < name.size()) text += '.';
    at = end + 1;
  }
  return text;
}

// The name of the table that shares the longest beginning with an unknown one: most often what was meant.
std::string nearest_pattern(const NameGroups& groups, std::string_view name, Side side) {
  std::string best;
  size_t best_length = 0;
  const std::string wanted = with_braces(name);
  for (const NameRule& rule : groups.kind->rules) {
    for (const SlotPattern& slot : slot_patterns(rule, groups.style, side)) {
      const auto length = static_cast<size_t>(std::ranges::mismatch(slot.pattern, wanted).in2 - wanted.begin());
      if (length <= best_length) continue;
      best_length = length;
      best = slot.pattern;
    }
  }
  return best;
}

Status refuse_unknown(const NameGroups& groups, const std::vector<TensorInfo>& tensors, Side side) {
  if (groups.unknown.empty()) return {};
  NameList unknown{.names = {}, .count = groups.unknown.size()};
  for (const size_t position : groups.unknown) {
    if (unknown.has_room()) unknown.names.push_back(tensors[position].name);
  }
  const std::string near = nearest_pattern(groups, unknown.names.front(), side);
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format(
          "{} of {} tensors have no counterpart in a model of kind {} ({}): {}.{} Leave them out if nothing needs them",
          unknown.count, tensors.size(), groups.kind->name, groups.kind->described, listed(unknown),
          near.empty() ? "" : fmt::format(" The nearest name that it has is \"{}\".", near)),
      Remedy::kSelectTensors);
}

}  // namespace

std::vector<SlotPattern> slot_patterns(const NameRule& rule, const NameStyle& style, Side side) {
  const std::string first = side == Side::kGptrs ? std::string(rule.gptrs) : with_prefix(rule.huggingface[0], style);
  if (rule.change == NameChange::kFold) {
    if (side == Side::kGptrs) return {{first + ".weight"}, {first + ".bias"}};
    return fold_slots(first, with_prefix(rule.huggingface[1], style));
  }
  std::vector<SlotPattern> slots = {{first}};
  if (side == Side::kGptrs || rule.change != NameChange::kJoin) return slots;
  for (const std::string_view pattern : {rule.huggingface[1], rule.huggingface[2]}) {
    slots.push_back({with_prefix(pattern, style)});
  }
  return slots;
}

NameGroups group_names(const std::vector<TensorInfo>& tensors, const NamedModel& kind, const NameStyle& style,
                       Side side) {
  const Matcher matcher(kind, style, side);
  NameGroups result{.kind = &kind, .style = style, .groups = {}, .ignored = {}, .unknown = {}};
  std::map<std::pair<size_t, NameNumbers>, Slots> slots;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (const auto place = matcher.place(tensors[i].name)) slots[{place->rule, place->numbers}][place->slot] = i;
    else if (matcher.ignores(tensors[i].name)) result.ignored.push_back(i);
    else result.unknown.push_back(i);
  }
  for (const auto& [key, filled] : slots) result.groups.push_back({&kind.rules[key.first], key.second, filled});
  return result;
}

NameGroups recognise_names(const std::vector<TensorInfo>& tensors) {
  NameGroups best;
  for (const NamedModel& kind : all_named_models()) {
    for (const NameStyle& style : kind.styles) {
      NameGroups groups = group_names(tensors, kind, style, Side::kHuggingFace);
      if (groups.groups.empty() || (best.kind && groups.unknown.size() >= best.unknown.size())) continue;
      best = std::move(groups);
    }
  }
  return best;
}

Status check_complete(const NameGroups& groups, const std::vector<TensorInfo>& tensors, Side side) {
  BALLAST_CHECK(refuse_unknown(groups, tensors, side));
  CompletenessCheck check(groups, side);
  const auto gap = check.gap();
  const NameList& missing = check.missing();
  if (missing.count == 0 && !gap) return {};
  const std::string what = missing.count == 0 ? fmt::format("all tensors of block {}", *gap) : listed(missing);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("this looks like a model of kind {} ({}), but it lacks {}",
                                                             groups.kind->name, groups.kind->described, what));
}

size_t count_blocks(const NameGroups& groups) {
  std::set<uint32_t> numbers;
  for (const NameGroup& group : groups.groups) {
    if (group.rule->gptrs.starts_with("blocks.{}")) numbers.insert(group.numbers.values[0]);
  }
  return numbers.size();
}

}  // namespace ballast
