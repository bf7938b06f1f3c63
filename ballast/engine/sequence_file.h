// The file that a sequence is saved to. All numbers are little-endian.
//
//   "BLSTPAST"  u32 version  model digest (32 bytes)
//   shape       u64 layers, KV heads, head size, context; the element type's name in 8 bytes; u64 count of windows, and
//               as many u64
//   text        u64 kind, u64 length, the tokens (u32)
//   pages       of each group of layers those that the next position looks at, in order; zeros behind the last position
//   digest      BLAKE3 of everything before it (32 bytes)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ballast/base/byte_source.h"
#include "ballast/base/hash.h"
#include "ballast/base/token_id.h"
#include "ballast/ops/kv_pages.h"

namespace ballast {

// Everything before the pages.
std::string encode_sequence_head(const Digest& model, const KvShape& shape, uint64_t kind,
                                 std::span<const TokenId> tokens);
// Of the pages of a text of this length; nullopt where that is no number.
std::optional<uint64_t> saved_page_bytes(const KvLayout& layout, uint64_t length);

struct SequenceHead {
  uint64_t kind = 0;
  uint64_t length = 0;
  uint64_t tokens_offset = 0;  // in the file
  uint64_t pages_offset = 0;
};

// Checks the whole file, to its last byte, before anything in it is believed: kCorrupt where it is damaged,
// kUnsupported for a later version, kInvalidArgument for another model or another shape. Takes little memory.
Result<SequenceHead> check_sequence_file(const ByteSource& file, const Digest& model, const KvLayout& layout);

}  // namespace ballast
