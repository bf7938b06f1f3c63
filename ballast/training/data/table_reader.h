// Tables of named columns in text files, a row at a time: CSV and JSON lines.
//
// Errors name the file and the line. Memory is that of one row, whatever the file holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ballast/base/result.h"

namespace ballast {

// One field of one row.
struct TableField {
  enum class Kind : uint8_t { kMissing, kNumber, kText, kNumbers };
  Kind kind = Kind::kMissing;
  std::string text;             // CSV: as it stands, also of numbers
  std::vector<double> numbers;  // one for kNumber; all finite
};

struct TableRow {
  uint64_t line = 0;               // where it begins
  std::vector<TableField> fields;  // one for each column
};

class TableReader {
 public:
  virtual ~TableReader() = default;
  virtual const std::string& name() const = 0;  // the file's
  virtual const std::vector<std::string>& columns() const = 0;
  // False at the end. The row's memory is used again.
  virtual Result<bool> next(TableRow& row) = 0;

  Error error_at(uint64_t line, std::string_view what) const;
};

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  // false: columns are called "0", "1", ...
};
// As RFC 4180 has it: fields in double quotes may hold delimiters, line breaks and doubled quotes; lines end in LF or
// CR LF; UTF-8, with or without a byte order mark. Every row has as many fields as the first. Empty lines are no rows.
Result<std::unique_ptr<TableReader>> open_csv(const std::string& path, const CsvOptions& options = {});

// One JSON object on each line. Columns are the keys of the first; values are numbers, texts, true and false (1 and 0),
// and lists of numbers. A key that a row lacks is kMissing, as is null; keys that the first row lacks are passed over.
Result<std::unique_ptr<TableReader>> open_jsonl(const std::string& path);

}  // namespace ballast
