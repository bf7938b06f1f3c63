#include "ballast/text/constraint/token_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/text/tokenizer.h"

namespace ballast {

namespace {

constexpr TokenId kLargestTokenId = TokenId{1} << 24U;
constexpr size_t kLongestTokenText = 4096;

// The longest tokens of each tree but the last. Near the end of a string of bounded length, a mask serves a single
// place: the shorter the tokens of a tree, the nearer. Words have up to 16 bytes; what is longer is mostly indentation
// and lines.
constexpr std::array<size_t, 2> kTreeLengths = {16, 32};

constexpr std::array<uint8_t, 256> make_kind_table() {
  std::array<uint8_t, 256> kinds{};
  uint8_t next = 12;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto is_in = [&](unsigned first, unsigned last) { return byte >= first && byte <= last; };
    if (byte == '\n') kinds[byte] = 0;
    else if (byte == '\r') kinds[byte] = 1;
    else if (byte == '\t') kinds[byte] = 2;
    else if (byte < 0x20 || byte == 0x7F) kinds[byte] = 3;
    else if (is_in('0', '9')) kinds[byte] = 4;
    else if (is_in('a', 'f')) kinds[byte] = 5;
    else if (is_in('g', 'z')) kinds[byte] = 6;
    else if (is_in('A', 'F')) kinds[byte] = 7;
    else if (is_in('G', 'Z')) kinds[byte] = 8;
    else if (is_in(0x80, 0xBF)) kinds[byte] = 9;
    else if (is_in(0xC2, 0xF4)) kinds[byte] = 10;
    else if (byte > 0x7F) kinds[byte] = 11;
    else kinds[byte] = next++;
  }
  return kinds;
}
constexpr std::array<uint8_t, 256> kKindTable = make_kind_table();
static_assert(kKindTable['~'] < 64, "a machine word has no more");

}  // namespace

ByteKinds kind_of_byte(uint8_t byte) { return ByteKinds{1} << kKindTable[byte]; }

TokenTree::TokenTree(std::vector<std::pair<std::string, TokenId>> tokens, size_t id_count)
    : all_((id_count + 63) / 64) {
  std::ranges::sort(tokens);
  std::vector<uint32_t> path = {0};  // nodes above the next one
  nodes_.emplace_back();
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const auto& [text, id] : tokens) {
    const auto common = static_cast<size_t>(std::ranges::mismatch(last, text).in1 - last.begin());
    close(1 + common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_token = static_cast<uint32_t>(ids_.size()),
                        .depth = static_cast<uint16_t>(i + 1),
                        .byte = static_cast<uint8_t>(text[i])});
    }
    ids_.push_back(id);
    all_[id / 64] |= uint64_t{1} << (id % 64);
    deepest_ = std::max(deepest_, static_cast<uint32_t>(text.size()));
    last = text;
  }
  close(0);
  nodes_.push_back({.first_token = static_cast<uint32_t>(ids_.size())});
  note_bytes_below();
}

void TokenTree::note_bytes_below() {
  std::vector<uint32_t> path;  // by depth
  for (uint32_t node = 0; node < size(); ++node) {
    const Node& at = nodes_[node];
    path.resize(at.depth);
    for (const uint32_t above : path) nodes_[above].below |= kind_of_byte(at.byte);
    path.push_back(node);
  }
}

TokenTrees::TokenTrees(std::vector<std::string> texts, std::optional<std::vector<std::string>> first)
    : texts_(std::move(texts)), first_texts_(std::move(first)) {
  add_trees(texts_);
  if (first_texts_) add_trees(*first_texts_);
}

void TokenTrees::add_trees(const std::vector<std::string>& texts) {
  std::array<std::vector<std::pair<std::string, TokenId>>, kLengths> tokens;
  for (size_t id = 0; id < texts.size(); ++id) {
    if (texts[id].empty()) continue;
    const auto tree = std::ranges::lower_bound(kTreeLengths, texts[id].size()) - kTreeLengths.begin();
    tokens[static_cast<size_t>(tree)].emplace_back(texts[id], static_cast<TokenId>(id));
  }
  for (auto& of_length : tokens) trees_.emplace_back(std::move(of_length), texts.size());
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
