#include <fmt/format.h>

#include <algorithm>

#include "ballast/base/json.h"
#include "ballast/base/utf8.h"
#include "ballast/io/guard.h"
#include "ballast/training/data/byte_reader.h"
#include "ballast/training/data/table_reader.h"

namespace ballast {

namespace {

constexpr size_t kLongestLine = size_t{64} << 20;
constexpr size_t kMostNumbers = size_t{1} << 20;

Status read_number_list(JsonReader& json, TableField& field) {
  field.kind = TableField::Kind::kNumbers;
  BALLAST_CHECK(json.enter_array());
  for (;;) {
    BALLAST_TRY(const bool more, json.next_element());
    if (!more) return {};
    BALLAST_TRY(const double value, json.read_double());
    if (field.numbers.size() == kMostNumbers) return json.error_here("the list is too long for one example");
    field.numbers.push_back(value);
  }
}

Status read_value(JsonReader& json, TableField& field) {
  BALLAST_TRY(const JsonType type, json.peek());
  field.text.clear();
  field.numbers.clear();
  switch (type) {
    case JsonType::kNull: field.kind = TableField::Kind::kMissing; return json.read_null();
    case JsonType::kString: field.kind = TableField::Kind::kText; return assign(field.text, json.read_string());
    case JsonType::kArray: return read_number_list(json, field);
    case JsonType::kObject: return json.error_here("objects inside a row mean nothing here");
    default: break;
  }
  double value = 0;
  if (type == JsonType::kTrue || type == JsonType::kFalse) {
    BALLAST_TRY(const bool truth, json.read_bool());
    value = truth ? 1 : 0;
  } else {
    BALLAST_TRY(value, json.read_double());
  }
  field.kind = TableField::Kind::kNumber;
  field.numbers.push_back(value);
  return {};
}

class JsonlReader final : public TableReader {
 public:
  explicit JsonlReader(ByteReader bytes) : bytes_(std::move(bytes)) {}

  const std::string& name() const override { return bytes_.path(); }
  const std::vector<std::string>& columns() const override { return columns_; }

  // The columns; the row itself is given out again.
  Status read_first() {
    BALLAST_TRY(const bool any, read_line());
    if (!any) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: the file holds no rows", name()));
    pending_ = true;
    return as_mistake(parse_columns());
  }

  Result<bool> next(TableRow& row) override {
    if (!pending_) {
      BALLAST_TRY(const bool more, read_line());
      if (!more) return false;
    }
    pending_ = false;
    row.line = line_;
    row.fields.resize(columns_.size());
    for (TableField& field : row.fields) field.kind = TableField::Kind::kMissing;
    BALLAST_CHECK(as_mistake(parse_row(row)));
    return true;
  }

 private:
  std::string where() const { return fmt::format("{}: line {}", name(), line_); }

  // The same code as for a wrong line of a CSV file: kCorrupt is for files of weights.
  static Status as_mistake(Status status) {
    if (!status && status.error().code == ErrorCode::kCorrupt) status.error().code = ErrorCode::kInvalidArgument;
    return status;
  }

  Status parse_columns() {
    JsonReader json(text_, where());
    BALLAST_CHECK(json.enter_object());
    for (std::string key;;) {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) break;
      BALLAST_CHECK(json.skip_value());
      if (std::ranges::find(columns_, key) != columns_.end())
        return error_at(line_, fmt::format("says \"{}\" twice", key));
      columns_.push_back(key);
    }
    return json.finish();
  }

  Status parse_row(TableRow& row) const {
    JsonReader json(text_, where());
    BALLAST_CHECK(json.enter_object());
    for (std::string key;;) {
      BALLAST_TRY(const bool more, json.next_key(key));
      if (!more) break;
      const auto column = std::ranges::find(columns_, key);
      if (column == columns_.end()) BALLAST_CHECK(json.skip_value());
      else BALLAST_CHECK(read_value(json, row.fields[static_cast<size_t>(column - columns_.begin())]));
    }
    return json.finish();
  }

  // The next line that is not empty into text_; false at the end.
  Result<bool> read_line() {
    for (;;) {
      text_.clear();
      ++line_;
      for (;;) {
        BALLAST_TRY(const auto c, bytes_.peek());
        if (!c && text_.empty()) return false;
        if (c) bytes_.skip();
        if (!c || *c == '\n') break;
        if (text_.size() == kLongestLine)
          return error_at(line_,
                          fmt::format("is longer than {} MiB; JSON lines hold one object each", kLongestLine >> 20));
        text_.push_back(*c);
      }
      if (line_ == 1 && text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
      if (text_.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (!is_valid_utf8(text_)) return error_at(line_, "is not UTF-8");
      return true;
    }
  }

  ByteReader bytes_;
  std::vector<std::string> columns_;
  std::string text_;  // the line read last
  uint64_t line_ = 0;
  bool pending_ = false;  // it was not given out yet
};

}  // namespace

Result<std::unique_ptr<TableReader>> open_jsonl(const std::string& path) {
  return guarded([&]() -> Result<std::unique_ptr<TableReader>> {
    BALLAST_TRY(ByteReader bytes, ByteReader::open(path));
    auto reader = std::make_unique<JsonlReader>(std::move(bytes));
    BALLAST_CHECK(reader->read_first());
    return std::unique_ptr<TableReader>(std::move(reader));
  });
}

}  // namespace ballast
