// CBOR (RFC 8949), read by a bounded pull reader and written in the shortest form.
//
// The reader never builds a tree, never recurses on its input, believes no length before it has seen the bytes, and
// takes every well-formed spelling: indefinite lengths, tags (which it skips), numbers longer than needed. The writer
// knows one spelling only, the one that serde's ciborium writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

enum class CborType : uint8_t { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kBool, kNull, kFloat, kOther };

// The first place where the text is not in the shortest, definite form.
struct CborOddity {
  uint64_t offset;
  std::string_view what;
};

class CborReader {
 public:
  // Containers inside each other, the outermost included: what Burn's reader allows.
  static constexpr size_t kMaxDepth = 128;

  // `where` names the bytes in errors ("model.bpk: metadata"); `base_offset` is added to every position.
  // The bytes must outlive the reader.
  CborReader(ByteSpan bytes, std::string where, uint64_t base_offset = 0);

  // What the next value is, without consuming it.
  Result<CborType> peek();

  // enter_array(); while (next()) { one value }     enter_map(); while (next()) { a key, its value }
  // next() consumes the end of the container and returns false there.
  Status enter_array() { return enter(kArrayMajor); }
  Status enter_map() { return enter(kMapMajor); }
  Result<bool> next() {
    if (const Frame& top = frames_.back(); !top.indefinite && top.left > 0) return true;
    return next_or_end();
  }
  // A value of an enumeration that carries something, as serde spells it: a map of exactly one entry. Between the two
  // calls the caller reads its name and what it carries.
  Status enter_variant();
  Status leave_variant();
  // What the container just entered claims to hold, at most one entry for each two bytes of the rest; nullopt where its
  // length is indefinite. Whoever reserves memory on it must know how short an entry can be.
  std::optional<uint64_t> claimed_entries() const;
  // How many times next() will still say true in the container just entered: found by walking over what is there, so
  // that memory may be reserved on it.
  Result<uint64_t> count_ahead() const;

  Result<uint64_t> read_u64();
  Result<int64_t> read_i64();
  Result<double> read_double();  // of any width; a quiet NaN keeps its payload
  Result<bool> read_bool();
  Status read_null();
  // Checked to be UTF-8. Points into the bytes or, for text in pieces, into the reader until the next call.
  Result<std::string_view> read_text();
  Result<ByteSpan> read_bytes();
  Status skip_value();

  bool at_end() const { return position_ == bytes_.size(); }
  // Position of the next byte, counted from the start of the file.
  uint64_t offset() const { return base_offset_ + position_; }
  // The bytes from an earlier offset() up to here.
  ByteSpan since(uint64_t offset) const;
  const std::optional<CborOddity>& oddity() const { return oddity_; }

  // An error at the current position: "<where>: byte <offset>: <what>".
  Error error_here(std::string_view what, ErrorCode code = ErrorCode::kCorrupt) const;

 private:
  static constexpr uint8_t kUnsignedMajor = 0;
  static constexpr uint8_t kNegativeMajor = 1;
  static constexpr uint8_t kBytesMajor = 2;
  static constexpr uint8_t kTextMajor = 3;
  static constexpr uint8_t kArrayMajor = 4;
  static constexpr uint8_t kMapMajor = 5;
  static constexpr uint8_t kTagMajor = 6;
  static constexpr uint8_t kSimpleMajor = 7;

  // The start of an item: its kind and the number that comes with it (value, length, count or the bits of a float).
  struct Head {
    uint8_t major;
    uint8_t info;
    uint64_t value;
    bool indefinite;
  };
  struct Frame {
    uint64_t left;  // items still to be begun; a map has two per entry
    bool indefinite;
    bool map;
    bool odd;  // an odd number of items was begun
  };

  void note_oddity(size_t position, std::string_view what);
  size_t remaining() const { return bytes_.size() - position_; }
  bool at_break() const;
  Result<bool> next_or_end();
  bool take_plain_head(uint8_t major, Head& head);
  Result<Head> parse_head();
  Status skip_tags();
  Result<Head> take_head();
  Result<Head> take_head_of(uint8_t major, std::string_view what);
  Status push(const Head& head);
  Status enter(uint8_t major);
  Result<ByteSpan> take_string(const Head& head);
  Result<ByteSpan> take_piece(const Head& head);
  Status skip_item();

  ByteSpan bytes_;
  std::string where_;
  uint64_t base_offset_;
  size_t position_ = 0;
  std::vector<Frame> frames_;
  std::string joined_;  // text or bytes that came in pieces
  std::optional<CborOddity> oddity_;
};

// Containers are begun with the number of their items, which the caller must then write.
class CborWriter {
 public:
  CborWriter& map(uint64_t entries) { return head(5, entries); }
  CborWriter& array(uint64_t items) { return head(4, items); }
  CborWriter& unsigned_number(uint64_t value) { return head(0, value); }
  CborWriter& signed_number(int64_t value);
  CborWriter& text(std::string_view text);
  // The narrowest of half, single and double that gives the same bits back.
  CborWriter& real(double value);
  CborWriter& boolean(bool value);
  CborWriter& null();

  const std::string& bytes() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  CborWriter& head(uint8_t major, uint64_t value);
  void append(uint8_t first, uint64_t value, size_t width);

  std::string out_;
};

}  // namespace ballast
