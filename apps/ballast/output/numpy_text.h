// NumPy's strings and dates, which are no numbers but can be read.
#pragma once

#include <optional>
#include <string>

#include "ballast/base/bytes.h"
#include "ballast/formats/description.h"

namespace ballast::cli {

struct NumpyType {
  enum class Kind : unsigned char { kBytes, kText, kDate, kDuration };
  Kind kind = Kind::kBytes;
  uint64_t count = 0;  // bytes, or characters of a text
  bool big_endian = false;
  std::string unit;       // of time: "D", "ns"; "" is none
  uint64_t multiple = 1;  // of the unit

  uint64_t item_size() const { return kind == Kind::kText ? 4 * count : count; }
  // "str5", "bytes3", "datetime64[D]", as NumPy says
  std::string name() const;
  // The element as text, not made printable. A date that no calendar reaches is its number.
  std::string text(ByteSpan element) const;
};

// nullopt for every tensor that is something else.
std::optional<NumpyType> numpy_type(const TensorInfo& tensor);

// The type as inspect shows it: "f32", "str5".
std::string shown_type(const TensorInfo& tensor);

}  // namespace ballast::cli
