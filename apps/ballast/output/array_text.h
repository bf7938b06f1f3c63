// The values of a slice, written out: nested as NumPy does, as JSON, or as CSV.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "apps/ballast/output/numbers.h"
#include "apps/ballast/output/numpy_text.h"
#include "ballast/archive/slice.h"

namespace ballast::cli {

// A slice of an arithmetic type, ready to be drawn in one or several passes. The archive must outlive it.
class ValueStream {
 public:
  ValueStream(const Archive& archive, size_t tensor, const Selection& selection)
      : archive_(archive), tensor_(tensor), selection_(selection) {}

  // visit(real part, imaginary part or null) for each element in order, without keeping them.
  using Visit = std::function<Status(const Number& real, const Number* imaginary)>;
  Status run(const Visit& visit) const;

  const Selection& selection() const { return selection_; }

 private:
  const Archive& archive_;
  size_t tensor_;
  const Selection& selection_;
};

// The same for elements that are texts and dates.
class WordStream {
 public:
  WordStream(const Archive& archive, size_t tensor, const Selection& selection, NumpyType type)
      : archive_(archive), tensor_(tensor), selection_(selection), type_(std::move(type)) {}

  using Visit = std::function<Status(const std::string& word)>;
  Status run(const Visit& visit) const;

  const Selection& selection() const { return selection_; }
  bool is_time() const { return type_.kind == NumpyType::Kind::kDate || type_.kind == NumpyType::Kind::kDuration; }

 private:
  const Archive& archive_;
  size_t tensor_;
  const Selection& selection_;
  NumpyType type_;
};

// Takes text as it comes; may hand it on and empty it, or end the work.
using TextSink = std::function<Status(std::string& text)>;

struct ArrayLayout {
  size_t precision = 8;
  size_t width = 80;  // of a line
  uint64_t edge = 0;  // the selection has lost the middle of every axis longer than 2 * edge; 0 = it is whole
  Shape shape;        // what the selection would be, whole
};

Status write_array(const ValueStream& values, const ArrayLayout& layout, std::string& out, const TextSink& flush);
// Texts stand in quotes, dates without.
Status write_array(const WordStream& words, const ArrayLayout& layout, std::string& out, const TextSink& flush);
// Arrays in arrays; NaN and infinities are the strings "nan", "inf", "-inf"; a complex number is [real, imaginary].
Status write_json_array(const ValueStream& values, std::string& out, const TextSink& flush);
Status write_json_array(const WordStream& words, std::string& out, const TextSink& flush);
// The last axis is a line, all before it follow each other; of one axis each value is a line.
Status write_csv(const ValueStream& values, std::string& out, const TextSink& flush);
Status write_csv(const WordStream& words, std::string& out, const TextSink& flush);

}  // namespace ballast::cli
