// What must be known of a grammar before texts are matched: which states may match nothing, how deep each must go to
// reach its end, and that no rule begins with itself.
#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/constraint/grammar_compiler.h"

namespace ballast {

namespace {

using CheckedKind = GrammarAction::Kind;

// The states that an action goes through on its way to the end of the rule.
struct ActionPath {
  StateId inside = kUnlimited;  // the rule or body that it calls
  StateId behind = kUnlimited;  // where it goes on
  uint32_t pushes = 0;
};

ActionPath path_of(const GrammarAction& action, const std::vector<GrammarRepeat>& repeats) {
  switch (action.kind) {
    case CheckedKind::kByte: return {.behind = action.next};
    case CheckedKind::kCall: return {.inside = action.what, .behind = action.next, .pushes = 1};
    case CheckedKind::kTailCall: return {.inside = action.what};
    case CheckedKind::kRepeat:
      if (repeats[action.what].least == 0) return {.behind = action.next};
      return {.inside = repeats[action.what].body, .behind = action.next, .pushes = 1};
    case CheckedKind::kEnd: break;
  }
  return {};
}

}  // namespace

// As Knuth generalises Dijkstra: the state that needs least is settled next, and every action is looked at once for
// each state that it depends on.
std::vector<uint32_t> GrammarCompiler::depths(bool with_bytes) const {
  const Grammar& grammar = *grammar_;
  const size_t states = grammar.plain_.size();
  std::vector<uint32_t> depth(states, kUnlimited), owner(grammar.actions_.size());
  std::vector<std::vector<uint32_t>> users(states);  // actions that depend on a state
  std::vector<std::vector<uint32_t>> ready(Grammar::kMostDepth + 1);
  const auto counts = [&](const GrammarAction& action) {
    return action.kind != CheckedKind::kByte || (with_bytes && grammar.sets_[action.what].any());
  };
  for (StateId state = 0; state < states; ++state) {
    for (uint32_t i = grammar.begins_[state]; i < grammar.begins_[state + 1]; ++i) {
      owner[i] = state;
      const GrammarAction& action = grammar.actions_[i];
      if (action.kind == CheckedKind::kEnd) ready[0].push_back(state);
      if (!counts(action)) continue;
      const ActionPath path = path_of(action, grammar.repeats_);
      if (path.inside != kUnlimited) users[path.inside].push_back(i);
      if (path.behind != kUnlimited && path.behind != path.inside) users[path.behind].push_back(i);
    }
  }
  const auto needs = [&](const GrammarAction& action) -> uint32_t {
    const ActionPath path = path_of(action, grammar.repeats_);
    const uint32_t inside = path.inside == kUnlimited ? 0 : depth[path.inside];
    const uint32_t behind = path.behind == kUnlimited ? 0 : depth[path.behind];
    if (inside == kUnlimited || behind == kUnlimited) return kUnlimited;
    return std::max(inside + path.pushes, behind);
  };
  for (uint32_t least = 0; least <= Grammar::kMostDepth; ++least) {
    for (size_t i = 0; i < ready[least].size(); ++i) {
      const StateId state = ready[least][i];
      if (depth[state] != kUnlimited) continue;
      depth[state] = least;
      for (const uint32_t user : users[state]) {
        const uint32_t needed = needs(grammar.actions_[user]);
        if (needed <= Grammar::kMostDepth && depth[owner[user]] == kUnlimited) ready[needed].push_back(owner[user]);
      }
    }
  }
  return depth;
}

// Where the entry can go before it has matched a byte: the starts of what it calls there.
std::vector<uint32_t> GrammarCompiler::left_corners(const Entry& entry, const std::vector<uint32_t>& nullable,
                                                    std::vector<bool>& seen) const {
  std::vector<uint32_t> corners, open = {entry.start};
  seen[entry.start] = true;
  while (!open.empty()) {
    const StateId state = open.back();
    open.pop_back();
    for (const GrammarAction& action : grammar_->actions(state)) {
      if (action.kind == CheckedKind::kByte || action.kind == CheckedKind::kEnd) continue;
      const bool is_repeat = action.kind == CheckedKind::kRepeat;
      const StateId inside = is_repeat ? grammar_->repeats_[action.what].body : action.what;
      corners.push_back(inside);
      const bool passes = nullable[inside] != kUnlimited || (is_repeat && grammar_->repeats_[action.what].least == 0);
      if (!passes || action.kind == CheckedKind::kTailCall || seen[action.next]) continue;
      seen[action.next] = true;
      open.push_back(action.next);
    }
  }
  return corners;
}

Status GrammarCompiler::check_left_recursion(const std::vector<uint32_t>& nullable) const {
  std::unordered_map<uint32_t, std::vector<uint32_t>> entries_at;  // by start: several rules may be the same states
  for (uint32_t i = 0; i < entries_.size(); ++i) entries_at[entries_[i].start].push_back(i);
  std::vector<std::vector<uint32_t>> begins_with(entries_.size());
  std::vector<bool> seen(nodes_.size());  // entries have no state in common but the end
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    for (const uint32_t start : left_corners(entries_[i], nullable, seen)) {
      const auto& found = entries_at[start];
      begins_with[i].insert(begins_with[i].end(), found.begin(), found.end());
    }
  }
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(entries_.size(), Mark::kNew);
  std::vector<size_t> looked_at(entries_.size());
  std::vector<uint32_t> path;
  for (uint32_t first = 0; first < entries_.size(); ++first) {
    if (marks[first] == Mark::kNew) path.push_back(first);
    while (!path.empty()) {
      const uint32_t entry = path.back();
      marks[entry] = Mark::kOpen;
      if (looked_at[entry] == begins_with[entry].size()) {
        marks[entry] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const uint32_t next = begins_with[entry][looked_at[entry]++];
      if (marks[next] == Mark::kNew) path.push_back(next);
      if (marks[next] == Mark::kOpen)
        return left_recursion(
            std::span(path).subspan(static_cast<size_t>(std::ranges::find(path, next) - path.begin())));
    }
  }
  return {};
}

Error GrammarCompiler::left_recursion(std::span<const uint32_t> path) const {
  constexpr size_t kShown = 8;
  std::string way;
  for (const uint32_t entry : path.first(std::min(path.size(), kShown)))
    way += draft_.name(entries_[entry].rule) + " -> ";
  if (path.size() > kShown) way += "... -> ";
  const std::string& name = draft_.name(entries_[path.front()].rule);
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: {} is left-recursive: it can begin with itself ({}{}), so it would never get to "
                                "its first character; put something before the recursion, or use a repetition",
                                where_, name, way, name));
}

Error GrammarCompiler::endless(const std::vector<uint32_t>& depth) const {
  std::string names;
  size_t count = 0;
  for (const Entry& entry : entries_) {
    if (depth[entry.start] != kUnlimited || ++count > 3) continue;
    names += (names.empty() ? "" : ", ") + draft_.name(entry.rule);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: no text matches it: {} would never end, or nest more than {} levels deep, or need "
                                "a character from an empty set",
                                where_, names, Grammar::kMostDepth));
}

}  // namespace ballast
