// GGUF: magic | version | counts | metadata | table of tensors | padding | payloads. See docs/formats.md.
#pragma once

#include <map>

#include "ballast/formats/format.h"
#include "ballast/formats/meta_array.h"

namespace ballast {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";
inline constexpr uint64_t kGgufDefaultAlignment = 32;
inline constexpr size_t kGgufMaxRank = 4;
inline constexpr size_t kGgufMaxName = 63;  // bytes; ggml keeps names in 64 with a terminating zero

// ---------------------------------------------------------------- types

std::optional<DType> gguf_dtype(uint32_t type);
std::optional<uint32_t> gguf_type(DType dtype);

// What the specification allows, and what llama.cpp asks for: a multiple of 8, or a power of two.
bool is_gguf_alignment(uint64_t alignment);

// ---------------------------------------------------------------- metadata values

// A number of this type, given by its bits, which stand in the low bytes.
MetaValue gguf_value(MetaType type, uint64_t bits);
// The other way; the type must hold the value.
uint64_t gguf_bits(MetaType type, const MetaValue& value);
// How a value is written unless a stored form says otherwise: the 32-bit type where it holds the value.
MetaType default_gguf_type(const MetaValue& value);
bool holds_exactly(MetaType type, const MetaValue& value);

// ---------------------------------------------------------------- stored form

// What a file spells otherwise than our writer by default: see Description::stored_form.
struct GgufForm {
  enum class Tail : uint8_t {
    kDefault,  // the last tensor is padded like the others; without tensors nothing is
    kBare,     // the last tensor is not padded
    kPadded,   // there are no tensors, but the metadata is padded
  };

  ByteOrder order = ByteOrder::kLittle;
  Tail tail = Tail::kDefault;
  std::map<std::string, MetaType> types;  // by key: of values that have another than the default one

  static GgufForm from_text(std::string_view text);
  std::string to_text() const;
};

// ---------------------------------------------------------------- one file

// The three keys of a file that is one of several.
struct GgufSplit {
  uint64_t number = 0;  // from 0
  uint64_t count = 1;
  std::optional<uint64_t> tensors;  // of all files together
};
bool is_gguf_split_key(std::string_view key);
// Of metadata without these keys: one file of one. An error where they make no sense.
Result<GgufSplit> find_gguf_split(const Description& description, const std::string& where);

// What ties the parts of a set together that replaced another: each says the digest of itself and of the part before
// it. Both are empty in sets that llama.cpp or we wrote where there was none before.
struct GgufSplitBond {
  std::string digest;
  std::string previous;
};
GgufSplitBond find_gguf_split_bond(const Description& description);
inline constexpr std::string_view kGgufSplitDigestKey = "ballast.split.digest";
inline constexpr std::string_view kGgufSplitPreviousKey = "ballast.split.previous";

// The same for writing: the keys, and the name of a part of `file_name`.
void add_gguf_split_keys(const GgufSplit& split, std::vector<MetaEntry>& metadata, GgufForm& form);
std::string gguf_part_name(std::string_view file_name, const GgufSplit& split);

// One file, validated: its own tensors in the order of their payloads, with extents of source 0.
struct GgufFile {
  Description description;  // stored_form left empty: `form` has it
  std::vector<StoredExtent> extents;
  GgufForm form;
};
// The table of tensors as it stands in the file, before anything is known of the data behind it.
struct GgufTable {
  struct Place {
    uint64_t offset = 0;        // in the data
    uint64_t table_offset = 0;  // where the row stands, for findings
  };
  std::vector<TensorInfo> tensors;
  std::vector<Place> places;
  uint64_t alignment = kGgufDefaultAlignment;
  uint64_t end = 0;  // where the padding in front of the data begins
};
// Checks the table against the file and gives its tensors, their extents and the form of its end to `file`.
Status place_gguf_tensors(const ByteSource& source, GgufTable table, Findings& findings, GgufFile& file);

Result<GgufFile> parse_gguf(const ByteSource& source, Findings& findings);

// All files of the set that `given` belongs to, which is the file that `request` names.
Result<Archive> open_gguf_split(const OpenRequest& request, GgufFile given, const GgufSplit& split, Findings& findings);

std::vector<Loss> find_gguf_losses(const Description& description, const WriteOptions& options);
Result<std::unique_ptr<PlannedWrite>> plan_gguf_write(const WriteRequest& request);

}  // namespace ballast
