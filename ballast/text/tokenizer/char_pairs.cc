#include "ballast/text/tokenizer/char_pairs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ballast/text/unicode.h"

namespace ballast {

namespace {

constexpr size_t kMostTokens = size_t{1} << 28;
// Splitting tokens at every place takes the square of their lengths: far above any vocabulary in use.
constexpr uint64_t kMostSplitting = uint64_t{1} << 32;
// Positions have 32 bits, so a longer piece is several.
constexpr size_t kMostSymbols = size_t{1} << 30;

}  // namespace

Result<CharPairEncoder> CharPairEncoder::make(const CharPairVocabulary& vocabulary) {
  if (vocabulary.tokens.size() > kMostTokens || vocabulary.merges.size() > kMostTokens) {
    return make_error(ErrorCode::kUnsupported, fmt::format("a vocabulary of {} tokens and {} merges is too large",
                                                           vocabulary.tokens.size(), vocabulary.merges.size()));
  }
  CharPairEncoder encoder;
  encoder.unknown_text_ = vocabulary.unknown;
  encoder.continuing_prefix_ = vocabulary.continuing_prefix;
  encoder.ending_ = vocabulary.ending;
  encoder.fuse_unknown_ = vocabulary.fuse_unknown;
  encoder.byte_fallback_ = vocabulary.byte_fallback;
  encoder.whole_pieces_ = vocabulary.whole_pieces;
  BALLAST_CHECK(encoder.add_tokens(vocabulary));
  if (vocabulary.scores.empty()) BALLAST_CHECK(encoder.add_merges(vocabulary));
  else BALLAST_CHECK(encoder.add_scores(vocabulary));
  return encoder;
}

Status CharPairEncoder::add_tokens(const CharPairVocabulary& vocabulary) {
  symbols_.reserve(vocabulary.tokens.size());
  for (const auto& [text, id] : vocabulary.tokens) {
    const auto [found, added] = symbols_.try_emplace(text, static_cast<Symbol>(ids_.size()));
    if (added) ids_.push_back(id);
    else ids_[found->second] = id;
  }
  for (unsigned byte = 0; byte < bytes_.size(); ++byte) bytes_[byte] = find(fmt::format("<0x{:02X}>", byte));
  unknown_ = vocabulary.unknown.empty() ? MergeTable::kNoSymbol : find(vocabulary.unknown);
  add_unbreakable(vocabulary);
  return {};
}

// They get symbols of their own, so that nothing merges with them.
void CharPairEncoder::add_unbreakable(const CharPairVocabulary& vocabulary) {
  std::vector<PhraseFinder::Phrase> phrases;
  for (const std::string& text : vocabulary.unbreakable) {
    const Symbol token = find(text);
    if (token == MergeTable::kNoSymbol) continue;
    phrases.push_back({text, static_cast<Symbol>(ids_.size())});
    ids_.push_back(ids_[token]);
  }
  if (!phrases.empty()) unbreakable_ = std::make_shared<PhraseFinder>(phrases, PhraseFinder::Reading::kBackward);
}

Status CharPairEncoder::add_merges(const CharPairVocabulary& vocabulary) {
  merges_ = MergeTable(vocabulary.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const auto& [left, right] = vocabulary.merges[rank];
    std::string_view rest = right;
    if (rest.starts_with(continuing_prefix_)) rest.remove_prefix(continuing_prefix_.size());
    joined.assign(left).append(rest);
    const MergeTable::Pair pair{find(left), find(right), static_cast<uint32_t>(rank), find(joined)};
    if (std::max({pair.left, pair.right, pair.merged}) == MergeTable::kNoSymbol) {
      return make_error(ErrorCode::kCorrupt,
                        fmt::format("merge {} joins \"{}\" and \"{}\" to \"{}\", but not all three are tokens", rank,
                                    left, right, joined));
    }
    merges_.add(pair);
  }
  return {};
}

CharPairEncoder::Symbol CharPairEncoder::part_of(std::string_view text, const std::vector<bool>& has_score) {
  const Symbol known = find(text);
  const bool single = char_at(text, 0).end == text.size();
  if (known != MergeTable::kNoSymbol)
    return single || known >= has_score.size() || has_score[known] ? known : MergeTable::kNoSymbol;
  if (!single) return MergeTable::kNoSymbol;
  loose_.emplace_back(text);
  const auto symbol = static_cast<Symbol>(ids_.size() + loose_.size() - 1);
  symbols_.emplace(text, symbol);
  return symbol;
}

Status CharPairEncoder::add_scores(const CharPairVocabulary& vocabulary) {
  std::vector<float> order;
  std::vector<bool> has_score(ids_.size());
  uint64_t splitting = 0;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!vocabulary.scores[i]) continue;
    order.push_back(*vocabulary.scores[i]);
    has_score[find(vocabulary.tokens[i].text)] = true;
    splitting += uint64_t{vocabulary.tokens[i].text.size()} * vocabulary.tokens[i].text.size();
    if (splitting > kMostSplitting) {
      return make_error(ErrorCode::kUnsupported,
                        fmt::format("token {} of {} bytes is too long for a vocabulary with scores",
                                    vocabulary.tokens[i].id, vocabulary.tokens[i].text.size()));
    }
  }
  std::ranges::sort(order, std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<MergeTable::Pair> pairs;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!vocabulary.scores[i]) continue;
    const std::string_view text = vocabulary.tokens[i].text;
    const auto place = std::ranges::lower_bound(order, *vocabulary.scores[i], std::greater<>());
    const auto rank = static_cast<uint32_t>(place - order.begin());
    const Symbol merged = find(text);
    for (size_t at = 0; at < text.size();) {
      at = char_at(text, at).end;
      if (at == text.size()) break;
      const Symbol left = part_of(text.substr(0, at), has_score);
      if (left == MergeTable::kNoSymbol) continue;
      const Symbol right = part_of(text.substr(at), has_score);
      if (right != MergeTable::kNoSymbol) pairs.push_back({left, right, rank, merged});
    }
  }
  merges_ = MergeTable(pairs.size());
  for (const MergeTable::Pair& pair : pairs) merges_.add(pair);
  return {};
}

CharPairEncoder::Symbol CharPairEncoder::find(std::string_view text) const {
  const auto found = symbols_.find(text);
  return found == symbols_.end() ? MergeTable::kNoSymbol : found->second;
}

// ---------------------------------------------------------------- encoding

bool CharPairEncoder::is_whole(std::string_view piece) const {
  if (whole_pieces_ == WholePieces::kNever) return false;
  return whole_pieces_ == WholePieces::kAlways || piece.find_first_not_of('\n') == std::string_view::npos;
}

Status CharPairEncoder::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (is_whole(piece)) {
    if (const Symbol whole = find(piece); whole < ids_.size() && whole != unknown_) {
      out.push_back(ids_[whole]);
      return {};
    }
  }
  const size_t first = out.size();
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  BALLAST_CHECK(add_symbols(piece, symbols));
  for (size_t at = 0; at < symbols.size(); at += kMostSymbols) {
    std::vector<Symbol> part;
    if (symbols.size() > kMostSymbols) {
      const auto begin = symbols.begin() + static_cast<ptrdiff_t>(at);
      part.assign(begin, begin + static_cast<ptrdiff_t>(std::min(kMostSymbols, symbols.size() - at)));
    } else {
      part.swap(symbols);
    }
    merges_.merge(part);
    for (const Symbol symbol : part) BALLAST_CHECK(emit(symbol, first, out));
  }
  return {};
}

Status CharPairEncoder::emit(Symbol symbol, size_t first, std::vector<TokenId>& out) const {
  const auto push = [&](Symbol known) {
    // A character that only parts of tokens hold turns out to be unknown here, beside others that were before.
    const bool again = fuse_unknown_ && known == unknown_ && out.size() > first && out.back() == ids_[unknown_];
    if (!again) out.push_back(ids_[known]);
  };
  if (symbol < ids_.size()) {
    push(symbol);
    return {};
  }
  std::vector<Symbol> instead;
  BALLAST_CHECK(add_unknown(loose_[symbol - ids_.size()], instead));
  for (const Symbol known : instead) push(known);
  return {};
}

Status CharPairEncoder::add_symbols(std::string_view piece, std::vector<Symbol>& out) const {
  if (!unbreakable_) return add_chars(piece, 0, piece.size(), out);
  std::vector<PhraseFinder::State> found(piece.size());  // the longest one that begins at each place
  PhraseFinder::State state = PhraseFinder::kStart;
  for (size_t at = piece.size(); at-- > 0;) {
    state = unbreakable_->next(state, piece[at]);
    found[at] = unbreakable_->longest(state);
  }
  size_t begin = 0;
  for (size_t at = 0; at < piece.size();) {
    if (found[at] == PhraseFinder::kStart) {
      at = char_at(piece, at).end;
      continue;
    }
    BALLAST_CHECK(add_chars(piece, begin, at, out));
    out.push_back(unbreakable_->value(found[at]));
    at += unbreakable_->length(found[at]);
    begin = at;
  }
  return add_chars(piece, begin, piece.size(), out);
}

Status CharPairEncoder::add_chars(std::string_view piece, size_t begin, size_t end, std::vector<Symbol>& out) const {
  std::string spelled;
  for (size_t at = begin; at < end;) {
    const CharAt c = char_at(piece.substr(0, end), at);
    std::string_view text = piece.substr(at, c.end - at);
    at = c.end;
    if (!continuing_prefix_.empty() || !ending_.empty()) {
      spelled = fmt::format("{}{}{}", c.begin > 0 ? continuing_prefix_ : "", text, at == piece.size() ? ending_ : "");
      text = spelled;
    }
    if (const Symbol symbol = find(text); symbol != MergeTable::kNoSymbol) out.push_back(symbol);
    else BALLAST_CHECK(add_unknown(text, out));
  }
  return {};
}

Status CharPairEncoder::add_unknown(std::string_view text, std::vector<Symbol>& out) const {
  if (byte_fallback_) {
    const auto byte_symbol = [this](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (std::ranges::none_of(text, [&](char c) { return byte_symbol(c) == MergeTable::kNoSymbol; })) {
      for (const char c : text) out.push_back(byte_symbol(c));
      return {};
    }
  }
  if (unknown_text_.empty()) return {};
  if (unknown_ == MergeTable::kNoSymbol) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("no token spells \"{}\", and the token for the unknown, \"{}\", is not in the vocabulary", text,
                    unknown_text_));
  }
  if (!fuse_unknown_ || out.empty() || out.back() != unknown_) out.push_back(unknown_);
  return {};
}

}  // namespace ballast
