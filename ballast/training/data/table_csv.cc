#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ballast/base/utf8.h"
#include "ballast/io/guard.h"
#include "ballast/training/data/byte_reader.h"
#include "ballast/training/data/table_reader.h"

namespace ballast {

namespace {

constexpr size_t kLargestField = size_t{16} << 20;
constexpr size_t kMostFields = size_t{1} << 20;

// A number as people write it: "1.5", " -2e-3 ", "+7". Nothing that is not finite.
std::optional<double> finite_number(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, end - begin + 1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class CsvReader final : public TableReader {
 public:
  CsvReader(ByteReader bytes, const CsvOptions& options) : bytes_(std::move(bytes)), options_(options) {}

  const std::string& name() const override { return bytes_.path(); }
  const std::vector<std::string>& columns() const override { return columns_; }

  Status read_header() {
    BALLAST_CHECK(skip_byte_order_mark());
    BALLAST_TRY(const bool any, read_record());
    if (!any) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: the file holds no rows", name()));
    for (size_t i = 0; i < count_; ++i) columns_.push_back(options_.header ? fields_[i] : std::to_string(i));
    pending_ = !options_.header;
    std::vector<std::string> sorted = columns_;
    std::ranges::sort(sorted);
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice == sorted.end()) return {};
    return error_at(record_line_, fmt::format("two columns are called \"{}\"", *twice));
  }

  Result<bool> next(TableRow& row) override {
    if (!pending_) {
      BALLAST_TRY(const bool more, read_record());
      if (!more) return false;
    }
    pending_ = false;
    row.line = record_line_;
    if (count_ != columns_.size()) {
      return error_at(record_line_, fmt::format("has {} field{}, but the first line has {}", count_,
                                                count_ == 1 ? "" : "s", columns_.size()));
    }
    row.fields.resize(count_);
    for (size_t i = 0; i < count_; ++i) set_field(row.fields[i], fields_[i]);
    return true;
  }

 private:
  static void set_field(TableField& field, const std::string& text) {
    field.text = text;
    field.numbers.clear();
    const auto number = finite_number(text);
    if (number) field.numbers.push_back(*number);
    field.kind = text.empty() ? TableField::Kind::kMissing
                 : number     ? TableField::Kind::kNumber
                              : TableField::Kind::kText;
  }

  Status skip_byte_order_mark() {
    for (const char expected : {'\xEF', '\xBB', '\xBF'}) {
      BALLAST_TRY(const auto c, bytes_.peek());
      if (c != expected) return {};  // half a mark is no UTF-8, and found as such
      bytes_.skip();
    }
    return {};
  }

  // The next record that is not an empty line into the first count_ of fields_; false at the end of the file.
  Result<bool> read_record() {
    for (;;) {
      BALLAST_TRY(const auto c, bytes_.peek());
      if (!c) return false;
      record_line_ = line_;
      count_ = 0;
      for (bool more = true; more;) BALLAST_CHECK(assign(more, read_field()));
      if (count_ > 1 || !fields_[0].empty() || quoted_) return true;
    }
  }

  // True where another field of the same record follows.
  Result<bool> read_field() {
    if (count_ == kMostFields) return error_at(record_line_, fmt::format("has more than {} fields", kMostFields));
    if (count_ == fields_.size()) fields_.emplace_back();
    std::string& field = fields_[count_++];
    field.clear();
    BALLAST_TRY(const auto first, bytes_.peek());
    quoted_ = first == '"';
    if (quoted_) BALLAST_CHECK(read_quoted(field));
    for (;;) {
      BALLAST_TRY(const auto c, bytes_.peek());
      if (c) bytes_.skip();
      const bool ends = !c || *c == '\n';
      if (ends || *c == options_.delimiter) {
        if (ends && !quoted_ && field.ends_with('\r')) field.pop_back();
        if (c == '\n') ++line_;
        BALLAST_CHECK(check_text(field));
        return !ends;
      }
      if (quoted_ && *c == '\r') continue;  // of the line's end
      if (quoted_) return error_at(line_, "has text behind a closing quote; a quote inside quotes is written twice");
      BALLAST_CHECK(append(field, *c));
    }
  }

  Status read_quoted(std::string& field) {
    const uint64_t begun = line_;
    bytes_.skip();
    for (;;) {
      BALLAST_TRY(const auto c, bytes_.peek());
      if (!c) return error_at(begun, "begins a quoted field that never ends");
      bytes_.skip();
      if (*c == '\n') ++line_;
      if (*c == '"') {
        BALLAST_TRY(const auto after, bytes_.peek());
        if (after != '"') return {};
        bytes_.skip();
      }
      BALLAST_CHECK(append(field, *c));
    }
  }

  Status append(std::string& field, char c) const {
    if (field.size() == kLargestField)
      return error_at(record_line_,
                      fmt::format("has a field of more than {} MiB; is a quote missing?", kLargestField >> 20));
    field.push_back(c);
    return {};
  }

  Status check_text(const std::string& field) const {
    if (is_valid_utf8(field)) return {};
    return error_at(record_line_, fmt::format("field {} is not UTF-8", count_));
  }

  ByteReader bytes_;
  CsvOptions options_;
  std::vector<std::string> columns_;
  std::vector<std::string> fields_;  // of the record read last; as many as any had
  size_t count_ = 0;
  uint64_t line_ = 1;
  uint64_t record_line_ = 1;
  bool quoted_ = false;   // the last field was
  bool pending_ = false;  // the record in fields_ was not given out yet
};

}  // namespace

Error TableReader::error_at(uint64_t line, std::string_view what) const {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: line {} {}", name(), line, what));
}

Result<std::unique_ptr<TableReader>> open_csv(const std::string& path, const CsvOptions& options) {
  return guarded([&]() -> Result<std::unique_ptr<TableReader>> {
    BALLAST_TRY(ByteReader bytes, ByteReader::open(path));
    auto reader = std::make_unique<CsvReader>(std::move(bytes), options);
    BALLAST_CHECK(reader->read_header());
    return std::unique_ptr<TableReader>(std::move(reader));
  });
}

}  // namespace ballast
