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

// The same from two whole words, of which what lies behind the piece is masked: no branches, which the lengths of
// words would make the processor guess.
constexpr size_t kLoaded = 2 * sizeof(uint64_t);
constexpr std::array<ShortPiece, ShortPiece::kMaxBytes + 1> kShortMasks = [] {
  std::array<ShortPiece, ShortPiece::kMaxBytes + 1> masks{};
  for (size_t size = 0; size < masks.size(); ++size) {
    masks[size].head = size < 8 ? (uint64_t{1} << (8 * size)) - 1 : ~uint64_t{0};
    masks[size].tail = size <= 8 ? 0 : (uint64_t{1} << (8 * (size - 8))) - 1;
  }
  return masks;
}();

ShortPiece short_piece_around(std::string_view piece) {
  const ShortPiece& mask = kShortMasks[piece.size()];
  return {load<uint64_t>(piece.data()) & mask.head,
          (load<uint64_t>(piece.data() + sizeof(uint64_t)) & mask.tail) | uint64_t{piece.size()} << 56};
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
  byte_pairs_.resize(kBytes.size() * kBytes.size());
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
    if (left.size() == 1 && right.size() == 1) byte_pairs_[byte_pair_of(left[0], right[0])] = {pair.rank, pair.merged};
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
    : places_(std::bit_ceil(std::clamp<size_t>(text_bytes / 16, 32, 1 << 14))),
      long_entries_(std::bit_ceil(std::clamp<size_t>(text_bytes / 2048, 1, 1 << 10))) {}

std::span<const TokenId> BytePairEncoder::Cache::ids_of(const Entry& entry) const {
  if (entry.id_count <= kMaxIds) return {entry.ids, entry.id_count};
  return std::span(long_ids_).subspan(entry.ids[0], entry.id_count);
}

void BytePairEncoder::Cache::keep(uint64_t hash, const ShortPiece& piece, std::span<const TokenId> ids) {
  const bool is_long = ids.size() > kMaxIds;
  // Frequent pieces come early, so what finds no room any more is rare.
  if (is_long && !has_room_for(ids)) return;
  Place& place = places_[hash & (places_.size() - 1)];
  place.other = place.newest;
  Entry& entry = place.newest;
  entry.piece = piece;
  entry.id_count = static_cast<uint32_t>(ids.size());
  if (is_long) {
    entry.ids[0] = static_cast<TokenId>(long_ids_.size());
    long_ids_.insert(long_ids_.end(), ids.begin(), ids.end());
  } else {
    std::ranges::copy(ids, entry.ids);
  }
}

BytePairEncoder::Cache::LongEntry& BytePairEncoder::Cache::long_entry(std::string_view piece) {
  const size_t middle = piece.size() / 2;
  uint64_t hash = piece.size();
  for (const size_t at : {size_t{0}, middle - 4, piece.size() - 8})
    hash = mix(hash ^ load<uint64_t>(piece.data() + at));
  return long_entries_[hash & (long_entries_.size() - 1)];
}

void BytePairEncoder::Cache::keep_long(LongEntry& entry, std::string_view piece, std::span<const TokenId> ids) {
  if (!has_room_for(ids)) return;
  std::ranges::copy(piece, entry.bytes.begin());
  entry.size = static_cast<uint8_t>(piece.size());
  entry.ids_begin = static_cast<uint32_t>(long_ids_.size());
  entry.id_count = static_cast<uint32_t>(ids.size());
  long_ids_.insert(long_ids_.end(), ids.begin(), ids.end());
}

void BytePairEncoder::encode_pieces(std::span<const std::string_view> pieces, std::string_view around, Cache& cache,
                                    std::vector<TokenId>& out) const {
  while (!pieces.empty()) {
    const size_t count = std::min(pieces.size(), kBatch);
    encode_batch(pieces.first(count), around, cache, out);
    pieces = pieces.subspan(count);
  }
}

void BytePairEncoder::encode_batch(std::span<const std::string_view> pieces, std::string_view around, Cache& cache,
                                   std::vector<TokenId>& out) const {
  std::array<ShortPiece, kBatch> keys;
  std::array<uint64_t, kBatch> hashes{};
  const char* const last_loadable = around.size() < kLoaded ? nullptr : around.data() + around.size() - kLoaded;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].empty() || pieces[i].size() > ShortPiece::kMaxBytes) continue;
    const bool loadable = last_loadable != nullptr && pieces[i].data() <= last_loadable;
    keys[i] = loadable ? short_piece_around(pieces[i]) : short_piece(pieces[i]);
    hashes[i] = hash_of(keys[i]);
    __builtin_prefetch(&cache.place(hashes[i]));
  }
  // How many tokens a known piece has cannot be predicted: all that an entry has room for are copied.
  std::array<TokenId, kBatch * Cache::kMaxIds> known;
  size_t count = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool is_short = pieces[i].size() <= ShortPiece::kMaxBytes;
    const Cache::Entry& entry = cache.place(hashes[i]).entry(keys[i]);
    if (is_short && entry.piece == keys[i] && entry.id_count <= Cache::kMaxIds) {
      std::copy_n(entry.ids, Cache::kMaxIds, known.begin() + static_cast<ptrdiff_t>(count));
      count += entry.id_count;
      continue;
    }
    out.insert(out.end(), known.begin(), known.begin() + static_cast<ptrdiff_t>(count));
    count = 0;
    if (!is_short) encode_long(pieces[i], cache, out);
    else if (!pieces[i].empty()) encode_new(pieces[i], keys[i], hashes[i], cache, out);
  }
  out.insert(out.end(), known.begin(), known.begin() + static_cast<ptrdiff_t>(count));
}

// A piece that no entry has, or whose tokens lie outside of it.
void BytePairEncoder::encode_new(std::string_view piece, const ShortPiece& key, uint64_t hash, Cache& cache,
                                 std::vector<TokenId>& out) const {
  const Cache::Entry& entry = cache.place(hash).entry(key);
  if (entry.piece == key) {
    const auto ids = cache.ids_of(entry);
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  const size_t before = out.size();
  if (const auto id = find_whole_piece(key, hash)) out.push_back(*id);
  else merge_short(piece, out);
  cache.keep(hash, key, std::span(out).subspan(before));
}

void BytePairEncoder::encode_long(std::string_view piece, Cache& cache, std::vector<TokenId>& out) const {
  if (piece.size() > Cache::LongEntry::kMaxBytes) return encode_long(piece, out);
  Cache::LongEntry& entry = cache.long_entry(piece);
  if (entry.holds(piece)) {
    const auto ids = std::span(cache.long_ids_).subspan(entry.ids_begin, entry.id_count);
    out.insert(out.end(), ids.begin(), ids.end());
    return;
  }
  const size_t before = out.size();
  encode_long(piece, out);
  cache.keep_long(entry, piece, std::span(out).subspan(before));
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
  char last = 0;
  for (const char c : piece) {
    const Symbol symbol = byte_symbols_[static_cast<unsigned char>(c)];
    if (symbol == kNoSymbol) continue;
    if (count > 0) {
      const BytePair& pair = byte_pairs_[byte_pair_of(last, c)];
      parts[count - 1].rank = pair.rank;
      parts[count - 1].merged = pair.merged;
    }
    parts[count++] = {symbol};
    last = c;
  }
  if (count == 0) return;
  const auto look_up = [&](size_t at) {
    const Pair* pair = at + 1 < count ? merges_.find(parts[at].symbol, parts[at + 1].symbol) : nullptr;
    parts[at].rank = pair != nullptr ? pair->rank : kNoRank;
    parts[at].merged = pair != nullptr ? pair->merged : kNoSymbol;
  };
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
