#include "ballast/text/constraint/token_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/tokenizer.h"

namespace ballast {

namespace {

constexpr TokenId kLargestTokenId = TokenId{1} << 24U;
constexpr size_t kLongestTokenText = 4096;

std::vector<std::pair<std::string, TokenId>> with_ids(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (!texts[id].empty()) tokens.emplace_back(texts[id], static_cast<TokenId>(id));
  }
  return tokens;
}

}  // namespace

TokenTree::TokenTree(std::vector<std::pair<std::string, TokenId>> tokens) {
  std::ranges::sort(tokens);
  std::vector<uint32_t> path = {0};  // nodes above the next one
  nodes_.push_back({.byte = 0, .depth = 0, .end = 0, .first_token = 0});
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const auto& [text, id] : tokens) {
    const auto common = static_cast<size_t>(std::ranges::mismatch(last, text).in1 - last.begin());
    close(1 + common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(text[i]),
                        .depth = static_cast<uint32_t>(i + 1),
                        .end = 0,
                        .first_token = static_cast<uint32_t>(ids_.size())});
    }
    ids_.push_back(id);
    deepest_ = std::max(deepest_, static_cast<uint32_t>(text.size()));
    last = text;
  }
  close(0);
  nodes_.push_back({.byte = 0, .depth = 0, .end = 0, .first_token = static_cast<uint32_t>(ids_.size())});
}

TokenTrees::TokenTrees(std::vector<std::string> texts, std::optional<std::vector<std::string>> first)
    : texts_(std::move(texts)), first_texts_(std::move(first)), following_(with_ids(texts_)) {
  if (first_texts_) first_.emplace(with_ids(*first_texts_));
}

Result<std::shared_ptr<const TokenTrees>> TokenTrees::make(const Tokenizer& tokenizer) {
  std::vector<std::string> texts, first;
  size_t known = 0;
  for (TokenId id = 0; known < tokenizer.size() && id < kLargestTokenId; ++id) {
    texts.emplace_back();
    first.emplace_back();
    const auto bytes = tokenizer.bytes_of(id);
    if (!bytes) continue;
    ++known;
    if (tokenizer.is_special(id) || bytes->size() > kLongestTokenText) continue;
    texts.back() = *bytes;
    // A byte of a character decodes to nothing sensible alone; only what is dropped at the front matters.
    BALLAST_TRY(const std::string alone, tokenizer.decode(std::span(&id, 1)));
    first.back() = bytes->ends_with(alone) ? alone : std::string(*bytes);
  }
  const bool differs = texts != first;
  return std::shared_ptr<const TokenTrees>(
      new TokenTrees(std::move(texts), differs ? std::optional(std::move(first)) : std::nullopt));
}

std::optional<std::string_view> TokenTrees::bytes_of(TokenId id, bool is_first) const {
  const std::vector<std::string>& texts = is_first && first_texts_ ? *first_texts_ : texts_;
  if (id >= texts.size() || texts[id].empty()) return std::nullopt;
  return texts[id];
}

}  // namespace ballast
