#include "ballast/edit/rename.h"

#include <fmt/format.h>

#include <unordered_map>

#include "ballast/archive/pattern.h"

namespace ballast {

namespace {

struct CompiledRule {
  RenameRule rule;
  Pattern pattern;
  bool matched = false;
};

// Position of the first '=' before which no odd number of backslashes stands; npos if there is none.
size_t find_split(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    else if (text[i] == '=') return i;
  }
  return std::string_view::npos;
}

// "\=" becomes "="; every other backslash belongs to the expression.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      if (text[i + 1] != '=') plain += text[i];
      plain += text[++i];
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string rule_text(const RenameRule& rule) { return rule.expression + "=" + rule.replacement; }

}  // namespace

Result<RenameRule> parse_rename_rule(std::string_view text) {
  const size_t split = find_split(text);
  if (split == std::string_view::npos) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" is not REGEX=REPLACEMENT: there is no = in it (and \\= is part of either side)", text));
  }
  if (split == 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\": the expression before = is empty; ^ stands for the beginning of a name", text));
  }
  return RenameRule{without_escapes(text.substr(0, split)), without_escapes(text.substr(split + 1))};
}

struct Renamer::State {
  std::vector<CompiledRule> rules;
};

Renamer::Renamer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Renamer::~Renamer() = default;
Renamer::Renamer(Renamer&&) noexcept = default;
Renamer& Renamer::operator=(Renamer&&) noexcept = default;

Result<Renamer> Renamer::compile(std::vector<RenameRule> rules) {
  auto state = std::make_unique<State>();
  for (RenameRule& rule : rules) {
    auto pattern = Pattern::compile(rule.expression);
    if (!pattern) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("rename rule \"{}\": {}; an = that belongs to the expression is written \\=",
                                    rule_text(rule), pattern.error().message));
    }
    state->rules.push_back({std::move(rule), *std::move(pattern)});
  }
  return Renamer(std::move(state));
}

Result<std::string> Renamer::rename(std::string_view name) {
  std::string current(name);
  for (CompiledRule& rule : state_->rules) {
    BALLAST_TRY(Pattern::Replaced replaced, rule.pattern.replace_all(current, rule.rule.replacement));
    if (replaced.matches == 0) continue;
    rule.matched = true;
    current = std::move(replaced.text);
    if (!current.empty()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("rename rule \"{}\" leaves nothing of the name \"{}\"", rule_text(rule.rule), name));
  }
  return current;
}

std::vector<RenameRule> Renamer::unmatched() const {
  std::vector<RenameRule> rules;
  for (const CompiledRule& rule : state_->rules) {
    if (!rule.matched) rules.push_back(rule.rule);
  }
  return rules;
}

Result<size_t> set_names(WritePlan& plan, std::vector<std::string> names) {
  std::vector<TensorInfo>& tensors = plan.description.tensors;
  std::unordered_map<std::string_view, size_t> position;
  position.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() && !tensors[i].name.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("nothing is left of the name \"{}\"", tensors[i].name));
    }
    const auto [other, is_new] = position.emplace(names[i], i);
    if (is_new) continue;
    return make_error(ErrorCode::kInvalidArgument, fmt::format("tensors \"{}\" and \"{}\" would both be called \"{}\"",
                                                               tensors[other->second].name, tensors[i].name, names[i]));
  }
  size_t changed = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (tensors[i].name == names[i]) continue;
    tensors[i].name = std::move(names[i]);
    ++changed;
  }
  return changed;
}

PlanEdit rename_tensors(std::vector<RenameRule> rules) {
  return [rules = std::move(rules)](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    BALLAST_TRY(Renamer renamer, Renamer::compile(rules));
    std::vector<std::string> names;
    names.reserve(plan.description.tensors.size());
    for (const TensorInfo& tensor : plan.description.tensors) {
      BALLAST_TRY(std::string name, renamer.rename(tensor.name));
      names.push_back(std::move(name));
    }
    BALLAST_TRY(const size_t changed, set_names(plan, std::move(names)));
    notes.push_back(fmt::format("renamed {} of {} tensors", changed, plan.description.tensors.size()));
    for (const RenameRule& rule : renamer.unmatched()) {
      notes.push_back(fmt::format("rename rule \"{}\" matched nothing", rule_text(rule)));
    }
    return {};
  };
}

std::string without_enum_variants(std::string_view name) {
  std::string kept;
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view component = name.substr(0, dot);
    const bool last = dot == std::string_view::npos;
    const bool variant = !last && !component.empty() && component[0] >= 'A' && component[0] <= 'Z';
    if (!variant) kept.append(component).append(last ? "" : ".");
    if (last) return kept;
    name.remove_prefix(dot + 1);
  }
}

PlanEdit skip_enum_variants() {
  return [](WritePlan& plan, std::vector<std::string>& notes) -> Status {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : plan.description.tensors) names.push_back(without_enum_variants(tensor.name));
    BALLAST_TRY(const size_t changed, set_names(plan, std::move(names)));
    notes.push_back(fmt::format("enum variants left out of {} of {} names", changed, plan.description.tensors.size()));
    return {};
  };
}

}  // namespace ballast
