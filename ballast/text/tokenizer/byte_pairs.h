// Byte-pair encoding: the merges of a vocabulary, applied to one piece of text at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ballast/base/result.h"
#include "ballast/base/token_id.h"
#include "ballast/text/tokenizer/merge_table.h"

namespace ballast {

// What a tokenizer file says. Texts are bytes: the alphabet in which files spell bytes is undone by their reader.
struct BytePairVocabulary {
  struct Token {
    std::string bytes;
    TokenId id;
  };
  struct Merge {
    std::string left;
    std::string right;
  };
  std::vector<Token> tokens;        // of two with the same bytes, or the same id, the last counts
  std::vector<Token> unreachable;   // have an id, but no text leads to them
  std::vector<Merge> merges;        // in order of rank; of two equal ones the last counts
  std::optional<TokenId> unknown;   // stands for bytes that no token spells; absent: they vanish before any merge
  bool whole_pieces_first = false;  // a piece that is a token is that token, whether or not merges lead to it
};

// Immutable once made, so any number of threads may encode with it.
class BytePairEncoder {
 public:
  static Result<BytePairEncoder> make(const BytePairVocabulary& vocabulary);

  // A piece of 1 to 15 bytes as two words: its bytes in order, zeros, and its length in the last.
  struct ShortPiece {
    static constexpr size_t kMaxBytes = 15;
    uint64_t head = 0;
    uint64_t tail = 0;  // 0: no piece
    bool operator==(const ShortPiece&) const = default;
  };

  // Remembers the tokens of pieces, which repeat in every text. One thread at a time.
  class Cache {
   public:
    // `text_bytes`: of what will be encoded with it; a longer text deserves a larger cache.
    explicit Cache(size_t text_bytes);

   private:
    friend class BytePairEncoder;
    static constexpr size_t kMaxIds = 3;
    struct Entry {
      ShortPiece piece;
      uint32_t id_count = 0;
      TokenId ids[kMaxIds] = {};  // of more tokens the first is where they begin among the long ones
    };
    // A line of the processor's cache.
    struct alignas(64) Place {
      Entry newest, other;
      // That of the piece, or the newest where neither is.
      const Entry& entry(const ShortPiece& piece) const { return other.piece == piece ? other : newest; }
    };
    const Place& place(uint64_t hash) const { return places_[hash & (places_.size() - 1)]; }
    std::span<const TokenId> ids_of(const Entry& entry) const;
    void keep(uint64_t hash, const ShortPiece& piece, std::span<const TokenId> ids);

    std::vector<Place> places_;      // a power of two; of three pieces with one place the last two have it
    std::vector<TokenId> long_ids_;  // of pieces with more tokens than an entry has room for: small vocabularies

    // Pieces that are too long for two words: indentation, rulers, long names.
    struct LongEntry {
      static constexpr size_t kMaxBytes = 55;
      std::array<char, kMaxBytes> bytes;
      uint8_t size = 0;
      uint32_t ids_begin = 0;  // among the long ones
      uint32_t id_count = 0;
      bool holds(std::string_view piece) const { return std::string_view(bytes.data(), size) == piece; }
    };
    LongEntry& long_entry(std::string_view piece);
    void keep_long(LongEntry& entry, std::string_view piece, std::span<const TokenId> ids);
    bool has_room_for(std::span<const TokenId> ids) const {
      return ids.size() <= places_.size() * 8 - long_ids_.size();
    }

    std::vector<LongEntry> long_entries_;  // a power of two; of two pieces with one place the later one has it
  };

  // Appends the tokens of the pieces, one after the other. Of the pairs that stand side by side in a piece the one of
  // lowest rank is merged first, the leftmost of equal ones, until no merge applies. n log n for any piece. Some pieces
  // at a time (kBatch) are faster than single ones: memory then works ahead. `around`: a text in which all pieces lie,
  // if there is one; its bytes behind a piece are loaded with it.
  static constexpr size_t kBatch = 32;
  void encode_pieces(std::span<const std::string_view> pieces, std::string_view around, Cache& cache,
                     std::vector<TokenId>& out) const;

 private:
  using Symbol = MergeTable::Symbol;
  using Pair = MergeTable::Pair;
  static constexpr Symbol kNoSymbol = MergeTable::kNoSymbol;
  static constexpr uint32_t kNoRank = MergeTable::kNoRank;

  struct WholePiece {
    ShortPiece piece;
    TokenId id = 0;
  };
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  Status add_merges(const BytePairVocabulary& vocabulary);
  void add_whole_pieces(const BytePairVocabulary& vocabulary);
  void add_whole_piece(const ShortPiece& piece, TokenId id);
  std::optional<TokenId> find_whole_piece(const ShortPiece& piece, uint64_t hash) const;
  void encode_batch(std::span<const std::string_view> pieces, std::string_view around, Cache& cache,
                    std::vector<TokenId>& out) const;
  void encode_new(std::string_view piece, const ShortPiece& key, uint64_t hash, Cache& cache,
                  std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, Cache& cache, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, std::vector<TokenId>& out) const;
  void merge(std::string_view piece, std::vector<TokenId>& out) const;
  void merge_short(std::string_view piece, std::vector<TokenId>& out) const;
  void emit(Symbol symbol, std::vector<TokenId>& out) const { out.push_back(ids_[symbol]); }

  std::vector<Symbol> byte_symbols_;  // of the 256 bytes; kNoSymbol for those that vanish
  std::vector<TokenId> ids_;          // by symbol; the unknown token for those without an id of their own
  MergeTable merges_;
  // The merges of two bytes once more, by both bytes: a word begins with as many of them as it has bytes.
  struct BytePair {
    uint32_t rank = kNoRank;
    Symbol merged = kNoSymbol;
  };
  static size_t byte_pair_of(char left, char right) {
    return size_t{static_cast<unsigned char>(left)} << 8 | static_cast<unsigned char>(right);
  }
  std::vector<BytePair> byte_pairs_;
  // Short pieces that end as one token, so that most of a text needs no merging. Open addressing; a power
  // of two, at most half full; a crowded place may leave pieces out.
  std::vector<WholePiece> whole_pieces_;
  // The tokens that are too long for it; only where whole pieces come first.
  std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> long_tokens_;
};

}  // namespace ballast
