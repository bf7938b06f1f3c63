// Burnpack: "NRUB", u16 version, u32 length | CBOR metadata | payloads. See docs/formats.md.
//
// Shared by the reader (burnpack.cc, burnpack_metadata.cc, burnpack_layout.cc) and the writer (burnpack_write.cc).
#pragma once

#include <array>

#include "ballast/formats/burnpack/burn_quant.h"
#include "ballast/formats/format.h"

namespace ballast {

inline constexpr std::string_view kBurnMagic = "NRUB";
inline constexpr uint16_t kBurnVersion = 1;
inline constexpr uint64_t kBurnHeaderSize = 10;
inline constexpr uint64_t kBurnAlignment = 256;
// Burn's readers refuse more.
inline constexpr uint64_t kBurnMaxMetadata = uint64_t{100} << 20;
inline constexpr uint64_t kBurnMaxTensors = 100'000;
inline constexpr size_t kBurnMaxRank = 64;

// Names of the dtypes that are plain text in every generation; empty for the others.
std::string_view burn_dtype_name(DType dtype);
std::optional<DType> find_burn_dtype(std::string_view name);

// ---------------------------------------------------------------- stored forms

inline constexpr std::string_view kBurnUnaligned = "layout=unaligned";  // of the file: as Burn 0.19 lays it out
inline constexpr std::string_view kBurnBoolText = "bool=text";          // of a tensor: "Bool", before Burn 0.21
inline constexpr std::string_view kBurnBoolU8 = "bool=u8";              // of a tensor: {"Bool": "U8"}
// Of a quantised tensor; empty for the spelling that is written by default, k022.
std::string_view quant_form(QuantSpelling spelling);
// k022 for anything that is not such a form.
QuantSpelling parse_quant_form(std::string_view form);

// ---------------------------------------------------------------- reading

// What the metadata says. Offsets of `extents` still count from the start of the data.
struct BurnMetadata {
  Description description;
  std::vector<StoredExtent> extents;     // one per tensor
  std::vector<uint64_t> header_offsets;  // where each tensor's descriptor stands
  // What today's Burn refuses or takes for something else: how many, and the first.
  struct Old {
    size_t count = 0;
    std::string first;
    uint64_t offset = 0;
    void add(const std::string& tensor, uint64_t at) {
      if (count++ != 0) return;
      first = tensor;
      offset = at;
    }
  };
  Old text_bools;
  Old harmless_schemes;  // spelled the old way, but taken right by luck
  Old misread_schemes;
};
Result<BurnMetadata> parse_burn_metadata(const ByteSource& source, ByteSpan cbor, Findings& findings);

// Where the data begins, told from the numbers and, where they leave a doubt, from the bytes behind the metadata.
struct BurnLayout {
  bool unaligned = false;
  uint64_t data_start = 0;
  bool looks_cut = false;  // would be complete as an unaligned file, but everything else speaks against that
};
// `extents` sorted by offset; `metadata_end` is where the CBOR ends.
Result<BurnLayout> find_burn_layout(const ByteSource& source, uint64_t metadata_end, const BurnMetadata& metadata);

// ---------------------------------------------------------------- writing

// What the readers of a Burn version know.
struct BurnTarget {
  std::string_view name;
  bool bool_stores;  // {"Bool": store} and not "Bool"
  bool scales;       // QuantSpelling::k022 and not k020
};
inline constexpr std::array kBurnTargets = {
    BurnTarget{"burn-0.20", false, false}, BurnTarget{"burn-0.21", true, false}, BurnTarget{"burn-0.22", true, true},
    BurnTarget{"burn-0.23", true, true},  // what is written by default
};

std::vector<Loss> find_burnpack_losses(const Description& description, const WriteOptions& options);
Result<std::unique_ptr<PlannedWrite>> plan_burnpack(const WriteRequest& request);

}  // namespace ballast
