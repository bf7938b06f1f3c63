// NumPy's dtype descriptors, read from the literal text of an NPY header.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ballast/base/result.h"
#include "ballast/formats/numpy/npy.h"

namespace ballast {

// Reads the few Python literals an NPY header is made of, and nothing else: no names, no calls, no operators.
class LiteralReader {
 public:
  // Both must outlive the reader. The text is UTF-8.
  LiteralReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  // Skips white space; true when `c` comes next, which is then consumed.
  bool take(char c);
  bool next_is(char c);
  Status expect(char c);
  Result<std::string> read_string();
  Result<uint64_t> read_integer();  // decimal, without sign
  Result<bool> read_bool();
  bool at_end();
  size_t position() const { return position_; }

  Error error_here(std::string_view what) const;

 private:
  void skip_space();
  Result<uint32_t> read_hex(size_t digits);
  Status read_escape(std::string& out);

  std::string_view text_;
  const std::string& where_;
  size_t position_ = 0;
};

// A tuple of integers, as shapes are written: () (3,) (2, 3).
Result<std::vector<uint64_t>> read_shape_literal(LiteralReader& literal);

// The value of 'descr': a string, or a list of fields.
Result<NpyType> read_descr(LiteralReader& literal, const std::string& where);

// The descriptor NumPy writes for a canonical tensor of this type; nullopt where it has none.
std::optional<std::string> npy_descr(const TensorInfo& tensor);

// `text` as Python's repr() writes a string.
std::string python_quoted(std::string_view text);

}  // namespace ballast
