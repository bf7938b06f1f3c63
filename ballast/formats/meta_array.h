// Lists as metadata values: a vocabulary, its scores, the sizes of layers. The types are those of GGUF, whose encoding
// is kept as it is: an array costs one allocation however many texts it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/bytes.h"
#include "ballast/base/result.h"

namespace ballast {

// GGUF's numbers of the types of values.
enum class MetaType : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };
inline constexpr uint32_t kMetaTypes = 13;

// "u8", "text", "array"
std::string_view meta_type_name(MetaType type);
std::optional<MetaType> parse_meta_type(std::string_view name);
// Bytes of one value; 0 for texts and arrays, whose lengths differ.
size_t meta_type_size(MetaType type);

enum class ByteOrder : uint8_t { kLittle, kBig };

// Never changes once it is made, and is valid then: no method can fail. Copies share the bytes.
class MetaArray {
 public:
  // `encoded` must hold exactly `count` elements, little-endian, as GGUF stores them: numbers one after another, a text
  // as u64 length and bytes, an array as u32 type, u64 count and its elements. It is copied.
  static Result<MetaArray> decode(MetaType element, uint64_t count, ByteSpan encoded);
  // The same from the front of `bytes`; `used` says how many belong to it.
  static Result<MetaArray> take(MetaType element, uint64_t count, ByteSpan bytes, ByteOrder order, uint64_t& used);

  static MetaArray of_texts(std::span<const std::string_view> texts);
  // The elements must be of one type.
  static MetaArray of_arrays(std::span<const MetaArray> arrays);
  static MetaArray of(std::span<const uint8_t> values);
  static MetaArray of(std::span<const uint32_t> values);
  static MetaArray of(std::span<const int32_t> values);
  static MetaArray of(std::span<const float> values);

  MetaType element() const { return element_; }
  uint64_t size() const { return count_; }
  // As decode() takes it.
  ByteSpan encoded() const { return bytes_; }
  std::string encoded_as(ByteOrder order) const;

  // Views into this array's bytes, valid while it or a copy of it lives. Empty unless the elements are texts.
  std::vector<std::string_view> texts() const;
  // Of elements that are integers or truth values (0, 1); of 64 unsigned bits, the same bits. Empty otherwise.
  std::vector<int64_t> integers() const;
  // Of all elements that are numbers or truth values. Empty otherwise.
  std::vector<double> numbers() const;
  // Of elements that are arrays. Empty otherwise.
  std::vector<MetaArray> arrays() const;

  // For people: `[49152 texts] "<s>", "</s>", …`, with at most so many elements.
  std::string to_text(size_t most) const;

  friend bool operator==(const MetaArray& a, const MetaArray& b);

 private:
  MetaArray(MetaType element, uint64_t count, ByteVector bytes);
  MetaArray(MetaType element, uint64_t count, std::shared_ptr<const ByteVector> owner, ByteSpan bytes)
      : element_(element), count_(count), owner_(std::move(owner)), bytes_(bytes) {}

  MetaType element_;
  uint64_t count_;
  std::shared_ptr<const ByteVector> owner_;  // shared with the arrays inside it
  ByteSpan bytes_;
};

}  // namespace ballast
