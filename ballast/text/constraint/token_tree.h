// The tokens of a vocabulary as prefix trees of their bytes.
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

// A set of token ids.
using TokenBits = std::vector<uint64_t>;

// Sets of bytes that are coarse enough for a machine word: digits are of one kind, most punctuation marks are each of
// their own.
using ByteKinds = uint64_t;
ByteKinds kind_of_byte(uint8_t byte);

// Nodes are numbered so that each is followed by what is below it. Node 0 is the root.
class TokenTree {
 public:
  struct Node {
    ByteKinds below = 0;       // of the bytes on all ways down from here
    uint32_t end = 0;          // first node behind what is below this one
    uint32_t first_token = 0;  // of those that end here; they go on to that of the next node
    uint16_t depth = 0;        // bytes so far
    uint8_t byte = 0;
  };

  TokenTree(std::vector<std::pair<std::string, TokenId>> tokens, size_t id_count);
  const Node& operator[](uint32_t node) const { return nodes_[node]; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  // All tokens, in the order of the nodes at which they end.
  std::span<const TokenId> tokens() const { return ids_; }
  const TokenBits& all() const { return all_; }
  uint32_t deepest() const { return deepest_; }

 private:
  void note_bytes_below();

  std::vector<Node> nodes_;  // and one behind the last
  std::vector<TokenId> ids_;
  TokenBits all_;
  uint32_t deepest_ = 0;
};

// Immutable; any number of threads may use it. Special tokens and tokens without text are in no tree.
class TokenTrees {
 public:
  static Result<std::shared_ptr<const TokenTrees>> make(const Tokenizer& tokenizer);

  // Trees by length of their tokens: nearly all are in the first. Some tokenizers drop the space before the first word
  // of a text.
  std::span<const TokenTree> trees(bool is_first) const {
    return std::span(trees_).subspan(is_first ? trees_.size() - kLengths : 0, kLengths);
  }
  // A number of its own for each tree.
  size_t number_of(const TokenTree& tree) const { return static_cast<size_t>(&tree - trees_.data()); }
  // What a token adds to the text; nullopt for one that has no place in it.
  std::optional<std::string_view> bytes_of(TokenId id, bool is_first) const;
  // One more than the largest id.
  size_t id_count() const { return texts_.size(); }

 private:
  static constexpr size_t kLengths = 3;

  TokenTrees(std::vector<std::string> texts, std::optional<std::vector<std::string>> first);
  void add_trees(const std::vector<std::string>& texts);

  std::vector<std::string> texts_;  // by id; empty: none
  std::optional<std::vector<std::string>> first_texts_;
  std::vector<TokenTree> trees_;
};

}  // namespace ballast
