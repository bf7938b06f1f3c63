// From the expressions of a draft to the states of a grammar.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ballast/text/constraint/grammar.h"

namespace ballast {

class GrammarCompiler {
 public:
  GrammarCompiler(const GrammarDraft& draft, std::string_view where) : draft_(draft), where_(where) {}
  Result<std::shared_ptr<const Grammar>> compile(RuleId root);

 private:
  // Until splits are resolved, a node does one thing. Every node becomes the state of its number.
  struct Node {
    enum class Kind : uint8_t { kSplit, kByte, kCall, kRepeat, kEnd } kind;
    uint32_t what;  // which split, set, rule or repeat
    uint32_t next;
  };
  // A rule, or the body of a counted repetition inside one.
  struct Entry {
    RuleId rule;
    uint32_t start;
  };

  uint32_t add_node(Node::Kind kind, uint32_t what, uint32_t next);
  uint32_t add_split(std::vector<uint32_t> ways);
  uint32_t add_bytes(const ByteSet& set, uint32_t next);
  // What matches the expression and goes on at `next`.
  uint32_t build(ExprId expr, uint32_t next);
  uint32_t build_repeat(const GrammarExpr& expr, uint32_t next);
  uint32_t build_expanded(const GrammarExpr& expr, uint32_t next);
  uint32_t build_chars(const CodePoints& set, uint32_t next);
  uint32_t build_texts(std::span<const std::string> texts, size_t at, uint32_t next);
  uint64_t size_of(ExprId expr);
  uint32_t entry_of(RuleId rule);
  void build_rules(RuleId root);

  Status check_size() const;
  Status resolve_splits();
  GrammarAction action_of(uint32_t node) const;
  void mark_tail_calls();
  void classify_bytes();
  // The depth that each state needs to reach the end of its rule; kUnlimited where there is no way. Without bytes, only
  // ways that match nothing count.
  std::vector<uint32_t> depths(bool with_bytes) const;
  Status check_left_recursion(const std::vector<uint32_t>& nullable) const;
  std::vector<uint32_t> left_corners(const Entry& entry, const std::vector<uint32_t>& nullable,
                                     std::vector<bool>& seen) const;
  Error left_recursion(std::span<const uint32_t> path) const;
  Error endless(const std::vector<uint32_t>& depth) const;

  const GrammarDraft& draft_;
  std::string where_;
  RuleId rule_ = 0;  // being built
  uint64_t work_ = 0;
  bool too_large_ = false;
  std::vector<Node> nodes_;
  std::vector<std::vector<uint32_t>> splits_;
  std::vector<Entry> entries_;
  std::unordered_map<RuleId, uint32_t> entry_of_rule_;
  std::unordered_map<ExprId, uint64_t> sizes_;
  std::unordered_map<ByteSet, uint32_t> set_numbers_;
  std::shared_ptr<Grammar> grammar_ = std::make_shared<Grammar>();
};

}  // namespace ballast
