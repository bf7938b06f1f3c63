#include "ballast/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ballast/base/utf8.h"
#include "ballast/text/word_split.h"

namespace ballast {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// How many bytes the character that `lead` begins has; 0 for a byte that begins none.
size_t length_from_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// True when bytes that may still come could complete the character at `at`.
bool may_be_completed(std::string_view text, size_t at) {
  const size_t wanted = length_from_lead(static_cast<unsigned char>(text[at]));
  if (wanted <= 1 || text.size() - at >= wanted) return false;
  // Fill up with the smallest and the largest bytes that may follow: if neither makes a character, nothing does.
  for (const char filler : {'\x80', '\xBF'}) {
    std::string filled(text.substr(at));
    filled.resize(wanted, filler);
    if (utf8_sequence_length(filled, 0) != 0) return true;
  }
  return false;
}

}  // namespace

Result<Tokenizer> Tokenizer::make(TokenizerDescription description) {
  BALLAST_TRY(BytePairEncoder encoder, BytePairEncoder::make(description.vocabulary));
  Tokenizer tokenizer(std::move(encoder));
  auto& texts = tokenizer.texts_;
  texts.reserve(description.vocabulary.tokens.size() + description.added.size());
  for (auto& token : description.vocabulary.tokens) texts.push_back({token.id, false, std::move(token.bytes)});
  for (const AddedToken& token : description.added) texts.push_back({token.id, token.special, token.text});
  // Of two tokens with one id the last counts, an added one most of all.
  std::ranges::stable_sort(texts, {}, &IdText::id);
  const auto last_of_id = [](const IdText& a, const IdText& b) { return a.id == b.id; };
  std::ranges::reverse(texts);
  texts.erase(std::unique(texts.begin(), texts.end(), last_of_id), texts.end());
  std::ranges::reverse(texts);

  tokenizer.added_ = std::move(description.added);
  std::erase_if(tokenizer.added_, [](const AddedToken& token) { return token.text.empty(); });
  std::ranges::stable_sort(tokenizer.added_, std::greater<>(), [](const AddedToken& t) { return t.text.size(); });
  for (const AddedToken& token : tokenizer.added_)
    tokenizer.added_first_byte_[static_cast<unsigned char>(token.text[0])] = true;
  tokenizer.add_prefix_space_ = description.add_prefix_space;
  return tokenizer;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 8);
  BytePairEncoder::Cache cache(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const auto [found, token] = find_added(text, at, options.special_tokens);
    if (found > at) encode_plain(text.substr(at, found - at), cache, ids);
    if (token == nullptr) break;
    ids.push_back(token->id);
    at = found + token->text.size();
  }
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, BytePairEncoder::Cache& cache, std::vector<TokenId>& out) const {
  std::string prefixed;
  if (add_prefix_space_ && !text.starts_with(' ')) {
    prefixed = fmt::format(" {}", text);
    text = prefixed;
  }
  std::array<std::string_view, BytePairEncoder::kBatch> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t count = 0;
    while (count < pieces.size() && at < text.size()) {
      const size_t end = gpt2_piece_end(text, at);
      pieces[count++] = text.substr(at, end - at);
      at = end;
    }
    encoder_.encode_pieces(std::span(pieces).first(count), cache, out);
  }
}

std::pair<size_t, const AddedToken*> Tokenizer::find_added(std::string_view text, size_t from, bool special) const {
  if (added_.empty()) return {text.size(), nullptr};
  for (size_t at = from; at < text.size(); ++at) {
    if (!added_first_byte_[static_cast<unsigned char>(text[at])]) continue;
    for (const AddedToken& token : added_) {
      if ((special || !token.special) && text.substr(at).starts_with(token.text)) return {at, &token};
    }
  }
  return {text.size(), nullptr};
}

const Tokenizer::IdText* Tokenizer::find_id(TokenId id) const {
  // Ids are dense in nearly every vocabulary.
  if (id < texts_.size() && texts_[id].id == id) return &texts_[id];
  const auto found = std::ranges::lower_bound(texts_, id, {}, &IdText::id);
  return found != texts_.end() && found->id == id ? &*found : nullptr;
}

std::optional<std::string_view> Tokenizer::bytes_of(TokenId id) const {
  const IdText* text = find_id(id);
  if (text == nullptr) return std::nullopt;
  return text->bytes;
}

bool Tokenizer::is_special(TokenId id) const {
  const IdText* text = find_id(id);
  return text != nullptr && text->special;
}

std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  for (const AddedToken& token : added_) {
    if (token.text == text) return token.id;
  }
  for (const IdText& entry : texts_) {
    if (entry.bytes == text) return entry.id;
  }
  return std::nullopt;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  std::string text;
  for (const TokenId id : ids) {
    const IdText* entry = find_id(id);
    if (entry == nullptr) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("there is no token {}: the largest id is {}", id,
                                                                 texts_.empty() ? 0 : texts_.back().id));
    }
    if (!(entry->special && options.skip_special_tokens)) text += entry->bytes;
  }
  return text;
}

// ---------------------------------------------------------------- streaming

Result<std::string> StreamDecoder::next(TokenId id) {
  BALLAST_TRY(const std::string bytes, tokenizer_.decode(std::span(&id, 1)));
  pending_ += bytes;
  std::string ready;
  size_t at = 0;
  while (at < pending_.size()) {
    const size_t length = utf8_sequence_length(pending_, at);
    if (length != 0) {
      ready.append(pending_, at, length);
      at += length;
      continue;
    }
    if (may_be_completed(pending_, at)) break;
    ready += kReplacement;
    ++at;
  }
  pending_.erase(0, at);
  return ready;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace ballast
