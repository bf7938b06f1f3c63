#include "apps/ballast/output/array_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/ballast/output/text.h"
#include "ballast/base/json.h"
#include "ballast/tensor/elements.h"

namespace ballast::cli {

namespace {

// Numbers from pieces of a payload.
class NumberSink final : public ByteSink {
 public:
  NumberSink(DType dtype, uint64_t elements, const ValueStream::Visit& visit)
      : dtype_(dtype), left_(elements * component_count(dtype)), visit_(visit) {}

  Status write(ByteSpan bytes) override {
    const uint64_t bits = dtype_info(dtype_).bits / component_count(dtype_);
    const auto count = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size() * 8 / bits));
    Status status;
    for_each_number(dtype_, bytes, count, [&](const Number& number) {
      if (status) status = add(number);
    });
    left_ -= count;
    taken_ += bytes.size();
    return status;
  }
  Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "values have no past"); }
  uint64_t position() const override { return taken_; }

 private:
  Status add(const Number& number) {
    if (component_count(dtype_) == 1) return visit_(number, nullptr);
    if (!has_real_) {
      real_ = number;
      has_real_ = true;
      return {};
    }
    has_real_ = false;
    return visit_(real_, &number);
  }

  DType dtype_;
  uint64_t left_;
  const ValueStream::Visit& visit_;
  Number real_;
  bool has_real_ = false;
  uint64_t taken_ = 0;
};

// Texts and dates from pieces of a payload.
class WordSink final : public ByteSink {
 public:
  WordSink(const NumpyType& type, const WordStream::Visit& visit) : type_(type), visit_(visit) {}

  Status write(ByteSpan bytes) override {
    taken_ += bytes.size();
    const auto size = static_cast<size_t>(type_.item_size());
    for (; bytes.size() >= size; bytes = bytes.subspan(size)) BALLAST_CHECK(visit_(type_.text(bytes.first(size))));
    return {};
  }
  Status patch(uint64_t, ByteSpan) override { return make_error(ErrorCode::kInvalidArgument, "values have no past"); }
  uint64_t position() const override { return taken_; }

 private:
  const NumpyType& type_;
  const WordStream::Visit& visit_;
  uint64_t taken_ = 0;
};

// Walks a row-major array and tells at each element how many axes begin and end there.
class Odometer {
 public:
  explicit Odometer(const Shape& shape) : dims_(shape.dims()), index_(shape.rank(), 0) {}

  size_t rank() const { return dims_.size(); }
  uint64_t at(size_t axis) const { return index_[axis]; }

  size_t beginning() const {
    size_t count = 0;
    while (count < rank() && index_[rank() - 1 - count] == 0) ++count;
    return count;
  }
  size_t ending() const {
    size_t count = 0;
    while (count < rank() && index_[rank() - 1 - count] + 1 == dims_[rank() - 1 - count]) ++count;
    return count;
  }
  void advance() {
    for (size_t axis = rank(); axis-- > 0;) {
      if (++index_[axis] < dims_[axis]) return;
      index_[axis] = 0;
    }
  }

 private:
  std::span<const uint64_t> dims_;
  std::vector<uint64_t> index_;
};

std::string plain_value(const Number& real, const Number* imaginary) {
  if (imaginary == nullptr) return plain_text(real);
  const std::string second = plain_text(*imaginary);
  return plain_text(real) + (second.starts_with('-') ? "" : "+") + second + "j";
}

class ArrayWriter {
 public:
  ArrayWriter(const Selection& selection, const ArrayLayout& layout, std::string& out, const TextSink& flush)
      : selection_(selection),
        layout_(layout),
        out_(out),
        flush_(flush),
        real_(layout.precision),
        imaginary_(layout.precision),
        odometer_(selection.shape) {}

  Status run(const ValueStream& values) {
    if (selection_.elements == 0) return write_empty();
    BALLAST_CHECK(values.run([&](const Number& real, const Number* imaginary) -> Status {
      real_.observe(real);
      if (imaginary != nullptr) imaginary_.observe(*imaginary);
      return {};
    }));
    real_.settle();
    imaginary_.settle();
    BALLAST_CHECK(values.run([&](const Number& real, const Number* imaginary) -> Status {
      add(imaginary == nullptr ? real_.text(real) : real_.text(real) + imaginary_.signed_text(*imaginary) + "j");
      return flush_(out_);
    }));
    out_ += '\n';
    return flush_(out_);
  }

  // Words below each other begin in the same column.
  Status run(const WordStream& words) {
    if (selection_.elements == 0) return write_empty();
    size_t widest = 0;
    const auto shown = [&](const std::string& word) {
      return words.is_time() ? word : fmt::format("\"{}\"", printable(word));
    };
    BALLAST_CHECK(words.run([&](const std::string& word) -> Status {
      widest = std::max(widest, display_width(shown(word)));
      return {};
    }));
    BALLAST_CHECK(words.run([&](const std::string& word) -> Status {
      std::string text = shown(word);
      if (odometer_.ending() == 0) text.append(widest - display_width(text), ' ');
      add(text);
      return flush_(out_);
    }));
    out_ += '\n';
    return flush_(out_);
  }

 private:
  Status write_empty() {
    out_ += "[]\n";
    return {};
  }

  // The axis at this index stands behind the gap that a summary leaves.
  bool behind_gap(size_t axis) const {
    return layout_.edge != 0 && layout_.shape[axis] > 2 * layout_.edge && odometer_.at(axis) == layout_.edge;
  }

  void add(const std::string& text) {
    const size_t rank = odometer_.rank();
    const size_t beginning = odometer_.beginning();
    if (!first_) {
      if (beginning == 0) separate(rank, text.size());
      else begin_line(rank, beginning);
    }
    out_.append(beginning, '[');
    out_ += text;
    column_ = (beginning > 0 ? rank : column_) + text.size();
    out_.append(odometer_.ending(), ']');
    first_ = false;
    odometer_.advance();
  }

  // Between two values of a row.
  void separate(size_t rank, size_t size) {
    if (behind_gap(rank - 1)) {
      out_ += " ...";
      column_ += 4;
    }
    if (column_ + 1 + size + rank > layout_.width) {
      out_ += '\n';
      out_.append(rank, ' ');
      column_ = rank;
    } else {
      out_ += ' ';
      ++column_;
    }
  }

  void begin_line(size_t rank, size_t beginning) {
    const size_t axis = rank - 1 - beginning;  // the one that moved on
    if (behind_gap(axis)) {
      out_.append(beginning, '\n');
      out_.append(rank - beginning, ' ');
      out_ += "...";
    }
    out_.append(beginning, '\n');
    out_.append(rank - beginning, ' ');
  }

  const Selection& selection_;
  const ArrayLayout& layout_;
  std::string& out_;
  const TextSink& flush_;
  NumberFormat real_;
  NumberFormat imaginary_;
  Odometer odometer_;
  bool first_ = true;
  size_t column_ = 0;
};

// In quotes where it must be, quotes inside doubled (RFC 4180).
std::string csv_field(const std::string& word) {
  if (word.find_first_of(",\"\r\n") == std::string::npos) return word;
  std::string out = "\"";
  for (const char c : word) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string json_number(const Number& number) {
  const bool word = number.kind == Number::Kind::kNan || number.kind == Number::Kind::kInfinity;
  return word ? '"' + plain_text(number) + '"' : plain_text(number);
}

// Axes of an array without elements: as deep as it has lengths before the first 0.
void append_empty_json(const Shape& shape, std::string& out) {
  uint64_t arrays = 1;
  std::string inner = "[]";
  std::vector<uint64_t> before;
  for (const uint64_t dim : shape.dims()) {
    if (dim == 0) break;
    before.push_back(dim);
  }
  constexpr uint64_t kMost = 10'000;
  constexpr size_t kDeepest = 64;
  for (const uint64_t dim : before) arrays = dim > kMost / arrays ? kMost + 1 : arrays * dim;
  if (arrays > kMost || before.size() > kDeepest) before.clear();  // nobody needs a million empty lists
  for (size_t axis = before.size(); axis-- > 0;) {
    std::string outer = "[";
    for (uint64_t i = 0; i < before[axis]; ++i) outer += (i == 0 ? "" : ",") + inner;
    inner = outer + "]";
  }
  out += inner;
}

}  // namespace

Status ValueStream::run(const Visit& visit) const {
  const DType dtype = archive_.tensors()[tensor_].dtype;
  NumberSink sink(is_block(dtype) ? DType::kF32 : dtype, selection_.elements, visit);
  return stream_slice_values(archive_, tensor_, selection_, sink);
}

Status WordStream::run(const Visit& visit) const {
  WordSink sink(type_, visit);
  return stream_slice(archive_, tensor_, selection_, sink);
}

Status write_array(const ValueStream& values, const ArrayLayout& layout, std::string& out, const TextSink& flush) {
  return ArrayWriter(values.selection(), layout, out, flush).run(values);
}

Status write_array(const WordStream& words, const ArrayLayout& layout, std::string& out, const TextSink& flush) {
  return ArrayWriter(words.selection(), layout, out, flush).run(words);
}

Status write_json_array(const ValueStream& values, std::string& out, const TextSink& flush) {
  const Selection& selection = values.selection();
  if (selection.elements == 0) {
    append_empty_json(selection.shape, out);
    return {};
  }
  Odometer odometer(selection.shape);
  bool first = true;
  return values.run([&](const Number& real, const Number* imaginary) -> Status {
    if (!std::exchange(first, false)) out += ',';
    out.append(odometer.beginning(), '[');
    if (imaginary == nullptr) out += json_number(real);
    else out += '[' + json_number(real) + ',' + json_number(*imaginary) + ']';
    out.append(odometer.ending(), ']');
    odometer.advance();
    return flush(out);
  });
}

Status write_json_array(const WordStream& words, std::string& out, const TextSink& flush) {
  const Selection& selection = words.selection();
  if (selection.elements == 0) {
    append_empty_json(selection.shape, out);
    return {};
  }
  Odometer odometer(selection.shape);
  bool first = true;
  return words.run([&](const std::string& word) -> Status {
    if (!std::exchange(first, false)) out += ',';
    out.append(odometer.beginning(), '[');
    JsonWriter json;
    out += json.string(json_text(word)).take();
    out.append(odometer.ending(), ']');
    odometer.advance();
    return flush(out);
  });
}

Status write_csv(const ValueStream& values, std::string& out, const TextSink& flush) {
  Odometer odometer(values.selection().shape);
  const bool one_per_line = odometer.rank() < 2;
  return values.run([&](const Number& real, const Number* imaginary) -> Status {
    out += plain_value(real, imaginary);
    out += one_per_line || odometer.ending() > 0 ? '\n' : ',';
    odometer.advance();
    return flush(out);
  });
}

Status write_csv(const WordStream& words, std::string& out, const TextSink& flush) {
  Odometer odometer(words.selection().shape);
  const bool one_per_line = odometer.rank() < 2;
  return words.run([&](const std::string& word) -> Status {
    out += csv_field(word);
    out += one_per_line || odometer.ending() > 0 ? '\n' : ',';
    odometer.advance();
    return flush(out);
  });
}

}  // namespace ballast::cli
