// How Burn describes quantised tensors, in the four ways its versions have spelled it.
//
// A QuantScheme is what a spelling means. Its text is part of a tensor's identity and digest, so it never changes:
//
//   <value>:<store>:<mode>[:block=<sizes>/<scale type>][:tensor=<scale type>]
//   q8s:native:symmetric:block=2x16/f16:tensor=f32        q4f:packed_u32=0:symmetric:tensor=f32
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/shape.h"
#include "ballast/formats/burnpack/cbor.h"

namespace ballast {

enum class QuantValue : uint8_t { kQ8F, kE5M2, kE4M3, kQ4F, kE2M1, kQ2F, kQ8S, kQ4S, kQ2S };
enum class QuantStore : uint8_t { kNative, kPackedNative, kPackedU32 };
enum class QuantMode : uint8_t { kSymmetric, kLookup };
enum class ScaleType : uint8_t { kF32, kF16, kBF16, kUE8M0, kUE4M3 };

// One scale for each block of values. Sizes align to the last dimensions; a missing leading one counts as 1.
struct BlockScale {
  static constexpr size_t kMaxRank = 5;
  std::array<uint8_t, kMaxRank> sizes = {1, 1, 1, 1, 1};
  uint8_t rank = 0;
  ScaleType type = ScaleType::kF32;

  friend bool operator==(const BlockScale&, const BlockScale&) = default;
};

// At least one of `block` and `tensor` is there.
struct QuantScheme {
  QuantValue value = QuantValue::kQ8S;
  QuantStore store = QuantStore::kNative;
  uint64_t packed_axis = 0;  // for the packed stores: which axis, counted from the last
  QuantMode mode = QuantMode::kSymmetric;
  std::optional<BlockScale> block;
  std::optional<ScaleType> tensor;  // one scale for the whole tensor, stored behind those of the blocks

  bool has_one_f32_scale() const { return !block && tensor == ScaleType::kF32; }
  friend bool operator==(const QuantScheme&, const QuantScheme&) = default;
};

// By the Burn version that introduced it.
enum class QuantSpelling : uint8_t {
  k019,         // value, param, store, level, mode; store may be "U32"
  k020,         // the same keys; packed stores name an axis
  k022Pre2,     // the same; level may have two steps
  k022,         // value, store, mode, tensor, block
  k022Implied,  // the same with neither tensor nor block: one f32 scale
};

struct SpelledScheme {
  QuantScheme scheme;
  QuantSpelling spelling;
  bool unknown_keys = false;  // there were more keys, which say nothing to us or to Burn
};

// Reads the map that stands behind "QFloat".
Result<SpelledScheme> read_quant_scheme(CborReader& cbor);
// Whether a Burn of that spelling can say this at all.
bool can_spell(const QuantScheme& scheme, QuantSpelling spelling);
// Only for what can_spell.
void write_quant_scheme(CborWriter& cbor, const QuantScheme& scheme, QuantSpelling spelling);

std::string quant_scheme_text(const QuantScheme& scheme);
std::optional<QuantScheme> parse_quant_scheme(std::string_view text);

unsigned quant_value_bits(QuantValue value);

// Bytes that a tensor of this shape should take: values, scales of blocks, scale of the tensor.
struct QuantLength {
  uint64_t by_line = 0;  // packed words begin anew with each line of the packed axis, as Burn 0.22 and later pack
  uint64_t flat = 0;     // packed words run through the whole tensor
};
// nullopt when the scheme does not fit the shape, or the numbers exceed 64 bits.
std::optional<QuantLength> quant_length(const QuantScheme& scheme, const Shape& shape);

}  // namespace ballast
