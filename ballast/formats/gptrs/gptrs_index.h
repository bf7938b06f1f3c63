// What GPTRSCHK and GPTRSTEN files share: the list of tensors and the payloads behind it. See docs/formats.md.
//
// Version 2 has an index in front of all payloads, version 1 a sequence of records each followed by its payload. A
// checkpoint's records also hold parameter ids, and its names are ASCII.
#pragma once

#include "ballast/formats/format.h"

namespace ballast {

struct GptrsKind {
  std::string_view format;  // the driver's name
  std::string_view magic;
  bool is_checkpoint;  // has a config and base ids
};
inline constexpr GptrsKind kGptrsCheckpoint = {"gptrs-checkpoint", "GPTRSCHK", true};
inline constexpr GptrsKind kGptrsTensors = {"gptrs-tensors", "GPTRSTEN", false};

inline constexpr uint64_t kGptrsHeadSize = 12;  // magic and version
inline constexpr uint32_t kGptrsSequential = 1;
inline constexpr uint32_t kGptrsIndexed = 2;

// The stored form of a tensor whose base id is stored as 0, "compute it from the name".
inline constexpr std::string_view kGptrsZeroIdForm = "id=0";

// A word in the stored form of a file of a later generation of gpt.rs, which begins each payload at a multiple of 64
// bytes, with zeros in between, and reads f16 and bf16.
inline constexpr std::string_view kGptrsAlignedForm = "aligned";
inline constexpr uint64_t kGptrsAlignment = 64;

// f32, f16, bf16 and i32. Earlier generations of gpt.rs neither read nor write payloads of the two half types.
std::optional<DType> gptrs_dtype(uint32_t tag);
std::optional<uint32_t> gptrs_dtype_tag(DType dtype);

// Bytes of an index entry: u32 name length, name, [u128 base id], u32 rank, u64 dims, u32 dtype, u8 requires_grad,
// u64 offset, u64 length.
inline constexpr uint64_t kGptrsRecordSize = 29;  // of an archive, without name and dims
constexpr uint64_t gptrs_record_size(const GptrsKind& kind, uint64_t name_length, uint64_t rank) {
  return kGptrsRecordSize + (kind.is_checkpoint ? 16 : 0) + name_length + 8 * rank;
}

// ---------------------------------------------------------------- reading

SniffMatch sniff_gptrs(const GptrsKind& kind, const SniffInput& input);

// Checks the magic and gives the version, 1 or 2; anything else is kUnsupported.
Result<uint32_t> read_gptrs_version(const ByteSource& source, const GptrsKind& kind);

// The u32 at `offset`, which the error calls `what` when the file ends before it.
Result<uint32_t> read_gptrs_u32(const ByteSource& source, uint64_t offset, std::string_view what);

struct GptrsContents {
  std::vector<TensorInfo> tensors;  // in the order of the index; of two namesakes only the last
  std::vector<StoredExtent> extents;
  bool is_aligned = false;  // see kGptrsAlignedForm
};

// Everything behind the head and the config: `offset` is where the index's length (version 2) or the number of tensors
// (version 1) stands.
Result<GptrsContents> parse_gptrs_contents(const ByteSource& source, const GptrsKind& kind, uint32_t version,
                                           uint64_t offset, Findings& findings);

// ---------------------------------------------------------------- writing

// Whether the file is to be written the way that kGptrsAlignedForm says.
bool writes_aligned(const GptrsKind& kind, const Description& description, const WriteOptions& options);

std::vector<Loss> find_gptrs_losses(const GptrsKind& kind, const Description& description, const WriteOptions& options);

// Fails with kLossy, naming the first, when there are any: whoever plans a write has settled them before.
Status refuse_gptrs_losses(const std::vector<Loss>& losses);

// An i32 vector that is written behind the tensors of the description; absent when `words` is empty.
struct GptrsExtraTensor {
  std::string_view name;
  ByteVector words;
};

// `head`: the bytes in front of the index's length field.
Result<std::unique_ptr<PlannedWrite>> plan_gptrs_write(const GptrsKind& kind, const WriteRequest& request,
                                                       std::string head, GptrsExtraTensor extra = {});

}  // namespace ballast
