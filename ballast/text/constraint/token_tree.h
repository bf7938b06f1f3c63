// The tokens of a vocabulary as a prefix tree of their bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"

namespace ballast {

class Tokenizer;  // text/tokenizer.h

// Nodes are numbered so that each is followed by what is below it. Node 0 is the root.
class TokenTree {
 public:
  struct Node {
    uint8_t byte;
    uint32_t depth;        // bytes so far
    uint32_t end;          // first node behind what is below this one
    uint32_t first_token;  // of those that end here; they go on to that of the next node
  };

  explicit TokenTree(std::vector<std::pair<std::string, TokenId>> tokens);
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  std::span<const TokenId> tokens_at(uint32_t node) const {
    return std::span(ids_).subspan(nodes_[node].first_token, nodes_[node + 1].first_token - nodes_[node].first_token);
  }
  uint32_t deepest() const { return deepest_; }

 private:
  std::vector<Node> nodes_;  // and one behind the last
  std::vector<TokenId> ids_;
  uint32_t deepest_ = 0;
};

// Immutable; any number of threads may use it. Special tokens and tokens without text are in neither tree.
class TokenTrees {
 public:
  static Result<std::shared_ptr<const TokenTrees>> make(const Tokenizer& tokenizer);

  // Some tokenizers drop the space before the first word of a text.
  const TokenTree& tree(bool is_first) const { return is_first && first_ ? *first_ : following_; }
  // What a token adds to the text; nullopt for one that has no place in it.
  std::optional<std::string_view> bytes_of(TokenId id, bool is_first) const;
  // One more than the largest id.
  size_t id_count() const { return texts_.size(); }

 private:
  TokenTrees(std::vector<std::string> texts, std::optional<std::vector<std::string>> first);

  std::vector<std::string> texts_;  // by id; empty: none
  std::optional<std::vector<std::string>> first_texts_;
  TokenTree following_;
  std::optional<TokenTree> first_;
};

}  // namespace ballast
