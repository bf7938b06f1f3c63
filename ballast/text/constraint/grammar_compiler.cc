#include "ballast/text/constraint/grammar_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ballast {

namespace {

constexpr uint32_t kGrammarEnd = 0;  // the node at which every rule ends
constexpr size_t kMostGrammarNodes = size_t{1} << 19U;
constexpr size_t kMostGrammarActions = size_t{1} << 21U;
constexpr uint64_t kMostBuildSteps = uint64_t{1} << 20U;
// Up to this many states a repetition is written out: states are faster than counting, and few.
constexpr uint64_t kMostWrittenOut = 64;

}  // namespace

Result<std::shared_ptr<const Grammar>> GrammarDraft::compile(RuleId root, std::string_view where) const {
  return GrammarCompiler(*this, where).compile(root);
}

// ---------------------------------------------------------------- nodes

uint32_t GrammarCompiler::add_node(Node::Kind kind, uint32_t what, uint32_t next) {
  if (nodes_.size() >= kMostGrammarNodes) {
    too_large_ = true;
    return kGrammarEnd;
  }
  nodes_.push_back({kind, what, next});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t GrammarCompiler::add_split(std::vector<uint32_t> ways) {
  if (ways.size() == 1) return ways[0];
  splits_.push_back(std::move(ways));
  return add_node(Node::Kind::kSplit, static_cast<uint32_t>(splits_.size() - 1), 0);
}

uint32_t GrammarCompiler::add_bytes(const ByteSet& set, uint32_t next) {
  const auto [found, is_new] = set_numbers_.try_emplace(set, static_cast<uint32_t>(grammar_->sets_.size()));
  if (is_new) grammar_->sets_.push_back(set);
  return add_node(Node::Kind::kByte, found->second, next);
}

// ---------------------------------------------------------------- expressions

// Roughly the number of nodes that it becomes, never more than needed to say that it is large.
uint64_t GrammarCompiler::size_of(ExprId id) {
  if (const auto known = sizes_.find(id); known != sizes_.end()) return known->second;
  const GrammarExpr& expr = draft_.expr(id);
  uint64_t size = 1;
  for (const ExprId part : expr.parts) size += size_of(part);
  if (expr.kind == GrammarExpr::Kind::kRepeat && expr.most != kUnlimited) size *= std::max(expr.most, 1U);
  for (const std::string& text : expr.texts) size += text.size();
  if (expr.kind == GrammarExpr::Kind::kChars) size = std::max<size_t>(expr.chars.size(), 1);
  return sizes_[id] = std::min(size, kMostWrittenOut + 1);
}

uint32_t GrammarCompiler::build(ExprId id, uint32_t next) {
  if (++work_ > kMostBuildSteps) too_large_ = true;
  if (too_large_) return next;
  const GrammarExpr& expr = draft_.expr(id);
  switch (expr.kind) {
    case GrammarExpr::Kind::kSequence:
      for (size_t i = expr.parts.size(); i-- > 0;) next = build(expr.parts[i], next);
      return next;
    case GrammarExpr::Kind::kChoice: {
      std::vector<uint32_t> ways;
      for (const ExprId part : expr.parts) ways.push_back(build(part, next));
      return add_split(std::move(ways));
    }
    case GrammarExpr::Kind::kRepeat: return build_repeat(expr, next);
    case GrammarExpr::Kind::kRule: return add_node(Node::Kind::kCall, entry_of(expr.rule), next);
    case GrammarExpr::Kind::kChars: return build_chars(expr.chars, next);
    case GrammarExpr::Kind::kTexts: return build_texts(expr.texts, 0, next);
  }
  return next;
}

uint32_t GrammarCompiler::build_repeat(const GrammarExpr& expr, uint32_t next) {
  if (expr.most == 0) return next;
  const uint64_t copies = expr.most == kUnlimited ? std::max(expr.least, 1U) : expr.most;
  if (copies == 1 || copies * size_of(expr.parts[0]) <= kMostWrittenOut) return build_expanded(expr, next);
  const uint32_t body = build(expr.parts[0], kGrammarEnd);
  entries_.push_back({rule_, body});
  grammar_->repeats_.push_back({.body = body, .least = expr.least, .most = expr.most, .next = next});
  return add_node(Node::Kind::kRepeat, static_cast<uint32_t>(grammar_->repeats_.size() - 1), next);
}

uint32_t GrammarCompiler::build_expanded(const GrammarExpr& expr, uint32_t next) {
  const ExprId part = expr.parts[0];
  if (expr.most == kUnlimited) {
    const uint32_t loop = add_node(Node::Kind::kSplit, static_cast<uint32_t>(splits_.size()), 0);
    const size_t split = splits_.size();
    splits_.emplace_back();
    const uint32_t again = build(part, loop);
    splits_[split] = {again, next};
    if (expr.least == 0) return loop;
    next = again;
    for (uint32_t i = 1; i < expr.least; ++i) next = build(part, next);
    return next;
  }
  uint32_t at = next;
  for (uint32_t i = expr.most; i > 0; --i) {
    at = build(part, at);
    if (i > expr.least) at = add_split({at, next});
  }
  return at;
}

// Bytes that are followed by the same are one set.
uint32_t GrammarCompiler::build_chars(const CodePoints& set, uint32_t next) {
  std::map<ByteRanges, ByteSet> first_bytes;  // by what comes behind
  for (const ByteRanges& spelling : utf8_spellings(set)) {
    ByteSet& bytes = first_bytes[ByteRanges(spelling.begin() + 1, spelling.end())];
    for (unsigned byte = spelling[0].first; byte <= spelling[0].last; ++byte) bytes.set(byte);
  }
  std::map<ByteRanges, uint32_t> tails = {{ByteRanges(), next}};
  std::vector<uint32_t> ways;
  for (const auto& [behind, bytes] : first_bytes) {
    uint32_t at = next;
    for (size_t i = behind.size(); i-- > 0;) {
      const auto [known, is_new] =
          tails.try_emplace(ByteRanges(behind.begin() + static_cast<ptrdiff_t>(i), behind.end()));
      if (is_new) {
        ByteSet allowed;
        for (unsigned byte = behind[i].first; byte <= behind[i].last; ++byte) allowed.set(byte);
        known->second = add_bytes(allowed, at);
      }
      at = known->second;
    }
    ways.push_back(add_bytes(bytes, at));
  }
  return add_split(std::move(ways));
}

// A prefix tree: however many the texts are, a byte decides between them. All have the first `at` bytes in common.
uint32_t GrammarCompiler::build_texts(std::span<const std::string> texts, size_t at, uint32_t next) {
  std::vector<uint32_t> ways;
  if (!texts.empty() && texts.front().size() == at) {
    ways.push_back(next);
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const auto other = std::ranges::find_if(texts, [&](const std::string& t) { return t[at] != texts.front()[at]; });
    const auto group = texts.first(static_cast<size_t>(other - texts.begin()));
    texts = texts.subspan(group.size());
    const auto [differs, same] = std::ranges::mismatch(group.front(), group.back());
    const auto common = static_cast<size_t>(differs - group.front().begin());
    uint32_t way = group.size() == 1 ? next : build_texts(group, common, next);
    for (size_t i = group.size() == 1 ? group.front().size() : common; i-- > at;) {
      way = add_bytes(ByteSet().set(static_cast<uint8_t>(group.front()[i])), way);
    }
    ways.push_back(way);
  }
  return add_split(std::move(ways));
}

// ---------------------------------------------------------------- rules

uint32_t GrammarCompiler::entry_of(RuleId rule) {
  const auto [found, is_new] = entry_of_rule_.try_emplace(rule, static_cast<uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({rule, kUnlimited});
  return found->second;
}

void GrammarCompiler::build_rules(RuleId root) {
  add_node(Node::Kind::kEnd, 0, 0);
  entry_of(root);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].start != kUnlimited) continue;  // the body of a repetition is built with its rule
    rule_ = entries_[i].rule;
    const uint32_t start = build(draft_.definition(rule_), kGrammarEnd);
    entries_[i].start = start;
  }
}

Status GrammarCompiler::check_size() const {
  if (!too_large_) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: it becomes more than {} states; simplify it, or use smaller repetitions", where_,
                                kMostGrammarNodes));
}

GrammarAction GrammarCompiler::action_of(uint32_t number) const {
  const Node& node = nodes_[number];
  switch (node.kind) {
    case Node::Kind::kByte: return {GrammarAction::Kind::kByte, node.what, node.next};
    case Node::Kind::kCall: return {GrammarAction::Kind::kCall, entries_[node.what].start, node.next};
    case Node::Kind::kRepeat: return {GrammarAction::Kind::kRepeat, node.what, node.next};
    case Node::Kind::kSplit:
    case Node::Kind::kEnd: break;
  }
  return {GrammarAction::Kind::kEnd};
}

Status GrammarCompiler::resolve_splits() {
  std::vector<uint32_t> seen(nodes_.size(), kUnlimited), open;
  for (uint32_t state = 0; state < nodes_.size(); ++state) {
    grammar_->begins_.push_back(static_cast<uint32_t>(grammar_->actions_.size()));
    bool is_plain = true;
    open = {state};
    seen[state] = state;
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      if (nodes_[at].kind != Node::Kind::kSplit) {
        grammar_->actions_.push_back(action_of(at));
        is_plain = is_plain && nodes_[at].kind == Node::Kind::kByte;
        continue;
      }
      for (const uint32_t way : splits_[nodes_[at].what]) {
        if (std::exchange(seen[way], state) != state) open.push_back(way);
      }
    }
    grammar_->plain_.push_back(is_plain);
    if (grammar_->actions_.size() <= kMostGrammarActions) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its states have more than {} ways to continue; use fewer alternatives", where_,
                                  kMostGrammarActions));
  }
  grammar_->begins_.push_back(static_cast<uint32_t>(grammar_->actions_.size()));
  return {};
}

void GrammarCompiler::mark_tail_calls() {
  for (GrammarAction& action : grammar_->actions_) {
    if (action.kind != GrammarAction::Kind::kCall) continue;
    const auto behind = grammar_->actions(action.next);
    if (behind.size() == 1 && behind[0].kind == GrammarAction::Kind::kEnd) action.kind = GrammarAction::Kind::kTailCall;
  }
}

// Every set divides the classes that there are.
void GrammarCompiler::classify_bytes() {
  constexpr uint32_t kNone = 256;
  for (const ByteSet& set : grammar_->sets_) {
    std::array<uint32_t, 512> number;
    number.fill(kNone);
    uint32_t count = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      uint8_t& known = grammar_->class_of_[byte];
      uint32_t& divided = number[2U * known + (set[byte] ? 1U : 0U)];
      if (divided == kNone) divided = count++;
      known = static_cast<uint8_t>(divided);
    }
    grammar_->class_count_ = count;
    if (count == 256) return;
  }
}

Result<std::shared_ptr<const Grammar>> GrammarCompiler::compile(RuleId root) {
  build_rules(root);
  BALLAST_CHECK(check_size());
  BALLAST_CHECK(resolve_splits());
  mark_tail_calls();
  classify_bytes();
  const std::vector<uint32_t> nullable = depths(false);
  BALLAST_CHECK(check_left_recursion(nullable));
  // What may be empty may be empty as often as it takes.
  for (GrammarRepeat& repeat : grammar_->repeats_) {
    if (nullable[repeat.body] != kUnlimited) repeat.least = 0;
  }
  grammar_->needed_depth_ = depths(true);
  grammar_->start_ = entries_[0].start;
  if (grammar_->needed_depth_[grammar_->start_] > Grammar::kMostDepth) return endless(grammar_->needed_depth_);
  return std::shared_ptr<const Grammar>(std::move(grammar_));
}

}  // namespace ballast
