#include "ballast/text/tokenizer/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>

#include "ballast/base/bytes.h"

namespace ballast {

namespace {

// Up to this many bytes the quadratic search for the best pair beats a heap.
constexpr size_t kShort = 64;

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15U;
  return value ^ (value >> 32);
}

using ShortPiece = BytePairEncoder::ShortPiece;

template <typename Word>
uint64_t load(const char* at) {
  return load_le<Word>(reinterpret_cast<const std::byte*>(at));
}

// Loads that overlap instead of a loop over the bytes.
ShortPiece short_piece(std::string_view piece) {
  const char* const data = piece.data();
  const size_t size = piece.size();
  const uint64_t length = uint64_t{size} << 56;
  if (size > 8) return {load<uint64_t>(data), load<uint64_t>(data + size - 8) >> (8 * (16 - size)) | length};
  if (size == 8) return {load<uint64_t>(data), length};
  if (size >= 4) return {load<uint32_t>(data) | load<uint32_t>(data + size - 4) << (8 * (size - 4)), length};
  const size_t middle = size / 2;
  return {load<uint8_t>(data) | load<uint8_t>(data + middle) << (8 * middle) |
              load<uint8_t>(data + size - 1) << (8 * (size - 1)),
          length};
}

uint64_t hash_of(const ShortPiece& piece) {
  const uint64_t sum = piece.head * 0x9E3779B97F4A7C15U + piece.tail * 0xD6E8FEB86659FD93U;
  return mix(sum ^ (sum >> 29));
}

}  // namespace

// ---------------------------------------------------------------- making

namespace {

// Hands out symbols: one for every text that is a token, a side of a merge, or the result of one.
class Symbols {
 public:
  explicit Symbols(size_t expected) { by_bytes_.reserve(expected); }
  // `bytes` must outlive this.
  uint32_t of(std::string_view bytes) { return by_bytes_.try_emplace(bytes, next()).first->second; }
  uint32_t of_joined(std::string_view left, std::string_view right) {
    joined_.assign(left).append(right);
    if (const auto found = by_bytes_.find(joined_); found != by_bytes_.end()) return found->second;
    return of(kept_.emplace_back(joined_));
  }
  size_t size() const { return by_bytes_.size(); }

 private:
  uint32_t next() const { return static_cast<uint32_t>(by_bytes_.size()); }

  std::unordered_map<std::string_view, uint32_t> by_bytes_;
  std::deque<std::string> kept_;
  std::string joined_;
};

// "\0", "\1", ...: the texts of single bytes.
constexpr std::array<char, 256> kBytes = [] {
  std::array<char, 256> bytes{};
  for (int byte = 0; byte < 256; ++byte) bytes[static_cast<size_t>(byte)] = static_cast<char>(byte);
  return bytes;
}();

}  // namespace

Result<BytePairEncoder> BytePairEncoder::make(const BytePairVocabulary& vocabulary) {
  constexpr size_t kMost = size_t{1} << 28;
  if (vocabulary.tokens.size() > kMost || vocabulary.merges.size() > kMost) {
    return make_error(ErrorCode::kUnsupported, fmt::format("a vocabulary of {} tokens and {} merges is too large",
                                                           vocabulary.tokens.size(), vocabulary.merges.size()));
  }
  BytePairEncoder encoder;
  BALLAST_CHECK(encoder.add_merges(vocabulary));
  encoder.add_whole_pieces(vocabulary);
  return encoder;
}

Status BytePairEncoder::add_merges(const BytePairVocabulary& vocabulary) {
  Symbols symbols(vocabulary.tokens.size() + kBytes.size());
  std::vector<TokenId> ids;  // of the first symbols, which are those of tokens
  for (const auto& token : vocabulary.tokens) {
    const Symbol symbol = symbols.of(token.bytes);
    if (symbol >= ids.size()) ids.resize(symbol + 1);
    ids[symbol] = token.id;
  }
  byte_symbols_.assign(kBytes.size(), kNoSymbol);
  for (size_t byte = 0; byte < kBytes.size(); ++byte) {
    const Symbol symbol = symbols.of({&kBytes[byte], 1});
    if (symbol < ids.size() || vocabulary.unknown) byte_symbols_[byte] = symbol;
  }
  merges_ = MergeTable(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const auto& [left, right] = vocabulary.merges[rank];
    if (left.empty() || right.empty()) {
      return make_error(ErrorCode::kCorrupt, fmt::format("merge {} has an empty side", rank));
    }
    const Pair pair{symbols.of(left), symbols.of(right), static_cast<uint32_t>(rank), symbols.of_joined(left, right)};
    if (std::max({pair.left, pair.right, pair.merged}) >= ids.size()) {
      return make_error(
          ErrorCode::kCorrupt,
          fmt::format("merge {} joins \"{}\" and \"{}\", but not all three are tokens", rank, left, right));
    }
    merges_.add(pair);
  }
  ids_.assign(symbols.size(), vocabulary.unknown.value_or(0));
  std::ranges::copy(ids, ids_.begin());
  return {};
}

void BytePairEncoder::add_whole_pieces(const BytePairVocabulary& vocabulary) {
  whole_pieces_.resize(std::bit_ceil(std::max<size_t>(vocabulary.tokens.size() * 2, 16)));
  std::vector<TokenId> ids;
  for (const auto& [bytes, id] : vocabulary.tokens) {
    if (bytes.empty()) continue;
    if (bytes.size() > ShortPiece::kMaxBytes) {
      if (vocabulary.whole_pieces_first) long_tokens_[bytes] = id;
      continue;
    }
    // A token that merges do not lead to never stands for its text; the tokens before it, of the same text, neither.
    ids.assign(1, id);
    if (!vocabulary.whole_pieces_first) {
      ids.clear();
      merge_short(bytes, ids);
    }
    if (ids.size() == 1) add_whole_piece(short_piece(bytes), ids[0]);
  }
}

void BytePairEncoder::add_whole_piece(const ShortPiece& piece, TokenId id) {
  constexpr size_t kPatience = 16;
  const size_t mask = whole_pieces_.size() - 1;
  size_t at = hash_of(piece) & mask;
  for (size_t i = 0; i < kPatience; ++i, at = (at + 1) & mask) {
    if (whole_pieces_[at].piece.tail != 0 && whole_pieces_[at].piece != piece) continue;
    whole_pieces_[at] = {piece, id};
    return;
  }
}

std::optional<TokenId> BytePairEncoder::find_whole_piece(const ShortPiece& piece, uint64_t hash) const {
  const size_t mask = whole_pieces_.size() - 1;
  for (size_t at = hash & mask; whole_pieces_[at].piece.tail != 0; at = (at + 1) & mask) {
    if (whole_pieces_[at].piece == piece) return whole_pieces_[at].id;
  }
  return std::nullopt;
}

// ---------------------------------------------------------------- encoding

BytePairEncoder::Cache::Cache(size_t text_bytes)
    : entries_(std::bit_ceil(std::clamp<size_t>(text_bytes / 8, 64, 1 << 15))) {}

std::span<const TokenId> BytePairEncoder::Cache::ids_of(const Entry& entry) const {
  if (entry.id_count <= kMaxIds) return {entry.ids, entry.id_count};
  return std::span(long_ids_).subspan(entry.ids[0], entry.id_count);
}

void BytePairEncoder::Cache::keep(Entry& entry, const ShortPiece& piece, std::span<const TokenId> ids) {
  const bool is_long = ids.size() > kMaxIds;
  // Frequent pieces come early, so what finds no room any more is rare.
  const size_t most_long_ids = entries_.size() * 4;
  if (is_long && ids.size() > most_long_ids - long_ids_.size()) return;
  entry.piece = piece;
  entry.id_count = static_cast<uint32_t>(ids.size());
  if (is_long) {
    entry.ids[0] = static_cast<TokenId>(long_ids_.size());
    long_ids_.insert(long_ids_.end(), ids.begin(), ids.end());
  } else {
    std::ranges::copy(ids, entry.ids);
  }
}

void BytePairEncoder::encode_pieces(std::span<const std::string_view> pieces, Cache& cache,
                                    std::vector<TokenId>& out) const {
  std::array<ShortPiece, kBatch> keys;
  std::array<uint64_t, kBatch> hashes{};
  while (!pieces.empty()) {
    const auto batch = pieces.first(std::min(pieces.size(), kBatch));
    pieces = pieces.subspan(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].empty() || batch[i].size() > ShortPiece::kMaxBytes) continue;
      keys[i] = short_piece(batch[i]);
      hashes[i] = hash_of(keys[i]);
      __builtin_prefetch(&cache.entries_[hashes[i] & (cache.entries_.size() - 1)]);
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].size() > ShortPiece::kMaxBytes) encode_long(batch[i], out);
      else if (!batch[i].empty()) encode_short(batch[i], keys[i], hashes[i], cache, out);
    }
  }
}

void BytePairEncoder::encode_short(std::string_view piece, const ShortPiece& key, uint64_t hash, Cache& cache,
                                   std::vector<TokenId>& out) const {
  Cache::Entry& entry = cache.entries_[hash & (cache.entries_.size() - 1)];
  if (entry.piece == key) {
    if (entry.id_count == 1) return out.push_back(entry.ids[0]);
    const auto ids = cache.ids_of(entry);
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  const size_t before = out.size();
  if (const auto id = find_whole_piece(key, hash)) out.push_back(*id);
  else merge_short(piece, out);
  cache.keep(entry, key, std::span(out).subspan(before));
}

void BytePairEncoder::encode_long(std::string_view piece, std::vector<TokenId>& out) const {
  if (!long_tokens_.empty()) {
    if (const auto found = long_tokens_.find(piece); found != long_tokens_.end()) return out.push_back(found->second);
  }
  // Positions have 32 bits, so a word of more than a gibibyte is several.
  constexpr size_t kMost = size_t{1} << 30;
  for (; piece.size() > kMost; piece.remove_prefix(kMost)) merge(piece.substr(0, kMost), out);
  merge(piece, out);
}

void BytePairEncoder::merge_short(std::string_view piece, std::vector<TokenId>& out) const {
  struct Part {
    Symbol symbol;
    uint32_t rank = kNoRank;  // of the pair with the next part
    Symbol merged = kNoSymbol;
  };
  std::array<Part, kShort> parts;
  size_t count = 0;
  for (const char c : piece) {
    const Symbol symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol != kNoSymbol) parts[count++] = {symbol};
  }
  if (count == 0) return;
  const auto look_up = [&](size_t at) {
    const Pair* pair = at + 1 < count ? merges_.find(parts[at].symbol, parts[at + 1].symbol) : nullptr;
    parts[at].rank = pair != nullptr ? pair->rank : kNoRank;
    parts[at].merged = pair != nullptr ? pair->merged : kNoSymbol;
  };
  for (size_t i = 0; i < count; ++i) look_up(i);
  for (;;) {
    size_t best = 0;
    for (size_t i = 1; i < count; ++i) best = parts[i].rank < parts[best].rank ? i : best;
    if (parts[best].rank == kNoRank) break;
    parts[best].symbol = parts[best].merged;
    std::copy(parts.begin() + static_cast<ptrdiff_t>(best) + 2, parts.begin() + static_cast<ptrdiff_t>(count),
              parts.begin() + static_cast<ptrdiff_t>(best) + 1);
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  for (size_t i = 0; i < count; ++i) emit(parts[i].symbol, out);
}

void BytePairEncoder::merge(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() <= kShort) return merge_short(piece, out);
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const char c : piece) {
    const Symbol symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol != kNoSymbol) symbols.push_back(symbol);
  }
  merges_.merge(symbols);
  for (const Symbol symbol : symbols) emit(symbol, out);
}

}  // namespace ballast
