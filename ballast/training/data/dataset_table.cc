// Sets out of tables: columns of numbers against a column of classes or numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "ballast/base/near_miss.h"
#include "ballast/io/guard.h"
#include "ballast/training/data/table_reader.h"
#include "ballast/training/dataset.h"

namespace ballast {

namespace {

constexpr size_t kMostLabels = size_t{1} << 16;
constexpr size_t kLongestLabel = 1024;
// Whole numbers beyond this are more likely quantities than classes; [data] target says otherwise.
constexpr double kMostNumberedClasses = 1000;

using FieldKind = TableField::Kind;

template <typename T>
ByteVector column_bytes(const std::vector<T>& values) {
  ByteVector bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Result<size_t> find_column(const TableReader& table, const std::string& name) {
  const auto& columns = table.columns();
  const auto found = std::ranges::find(columns, name);
  if (found != columns.end()) return static_cast<size_t>(found - columns.begin());
  const std::vector<std::string_view> names(columns.begin(), columns.end());
  const std::string_view near = nearest(name, names);
  return make_error(ErrorCode::kNotFound,
                    fmt::format("{}: there is no column \"{}\"; {}", table.name(), name,
                                near.empty() ? fmt::format("there are: {}", fmt::join(names, ", "))
                                             : fmt::format("did you mean \"{}\"?", near)));
}

// Which columns are read for what.
struct Roles {
  std::vector<size_t> features;
  size_t target = 0;
};

Result<Roles> find_roles(const TableReader& table, const TableOptions& options) {
  Roles roles;
  if (options.target.empty() && !options.last_is_target) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: which column is the target? [data] y names it; there are: {}", table.name(),
                                  fmt::join(table.columns(), ", ")));
  }
  BALLAST_TRY(roles.target, find_column(table, options.target.empty() ? table.columns().back() : options.target));
  for (const std::string& name : options.features) {
    BALLAST_TRY(const size_t column, find_column(table, name));
    if (column == roles.target) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: column \"{}\" cannot be both a feature and the target", table.name(), name));
    }
    roles.features.push_back(column);
  }
  for (size_t i = 0; options.features.empty() && i < table.columns().size(); ++i) {
    if (i != roles.target) roles.features.push_back(i);
  }
  if (!roles.features.empty()) return roles;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: there is no column beside the target \"{}\"; is the delimiter right?",
                                table.name(), table.columns()[roles.target]));
}

// What is gathered row by row.
class TableColumns {
 public:
  TableColumns(TableReader& table, const TableOptions& options, Roles roles)
      : table_(table), options_(options), roles_(std::move(roles)) {
    for (const std::string& name : options.class_names) ids_.emplace(name, static_cast<uint32_t>(ids_.size()));
  }

  Status read() {
    TableRow row;
    for (;;) {
      BALLAST_TRY(const bool more, table_.next(row));
      if (!more) break;
      BALLAST_CHECK(add_features(row));
      BALLAST_CHECK(add_target(row));
      ++rows_;
    }
    if (rows_ != 0) return {};
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: the file holds no rows of data", table_.name()));
  }

  Result<std::shared_ptr<const Dataset>> make() {
    ArrayOptions array;
    array.target = options_.form;
    array.classes = options_.classes;
    array.divide_by = options_.divide_by;
    ArrayColumn features{"x", DType::kF32, {rows_, width_}, BytesOrView(column_bytes(features_))};
    if (!labels_.empty()) return make_named(std::move(features), array);
    const auto whole = [](double value) {
      return value >= 0 && value == std::floor(value) && value < kMostNumberedClasses;
    };
    if (array.target == TargetForm::kAuto)
      array.target = std::ranges::all_of(numbers_, whole) ? TargetForm::kClasses : TargetForm::kValues;
    return make_array_dataset(table_.name(), std::move(features),
                              ArrayColumn{target_name(), DType::kF64, {rows_}, BytesOrView(column_bytes(numbers_))},
                              array);
  }

 private:
  const std::string& target_name() const { return table_.columns()[roles_.target]; }

  Error wrong(const TableRow& row, size_t column, std::string_view what) const {
    const TableField& field = row.fields[column];
    const std::string shown = field.kind == FieldKind::kMissing   ? "is missing"
                              : field.kind == FieldKind::kNumbers ? "is a list"
                              : field.text.empty() && field.kind == FieldKind::kNumber
                                  ? fmt::format("is {}", field.numbers.front())
                                  : fmt::format("is \"{:.40}\"", field.text);
    return table_.error_at(row.line, fmt::format("column \"{}\" {}{}", table_.columns()[column], shown, what));
  }

  Status add_features(const TableRow& row) {
    const size_t before = features_.size();
    for (const size_t column : roles_.features) {
      const TableField& field = row.fields[column];
      if (field.kind == FieldKind::kMissing) return wrong(row, column, "; every row needs a number there");
      if (field.kind == FieldKind::kText) {
        return wrong(row, column,
                     ", which is no finite number; [data] x lists the columns to learn from, and text is "
                     "learnt with [data] text");
      }
      for (const double number : field.numbers) {
        const auto value = static_cast<float>(number);
        if (!std::isfinite(value)) return wrong(row, column, ", which is too large for f32");
        features_.push_back(value);
      }
    }
    const size_t added = features_.size() - before;
    if (rows_ == 0) width_ = added;
    if (added == width_ && added != 0) return {};
    return table_.error_at(row.line, fmt::format("has {} features, but the first row has {}", added, width_));
  }

  Status add_target(const TableRow& row) {
    const TableField& field = row.fields[roles_.target];
    const bool text = field.kind == FieldKind::kText || !options_.class_names.empty();
    if (field.kind == FieldKind::kMissing || field.kind == FieldKind::kNumbers)
      return wrong(row, roles_.target, "; every row needs one class or number there");
    if (rows_ != 0 && text == labels_.empty()) {
      return wrong(
          row, roles_.target,
          labels_.empty() ? ", but the rows before hold numbers" : ", a number, but the rows before hold text");
    }
    if (text) return add_label(row, field);
    if (!std::isfinite(static_cast<float>(field.numbers.front())))
      return wrong(row, roles_.target, ", which is too large for f32");
    numbers_.push_back(field.numbers.front());
    return {};
  }

  Status add_label(const TableRow& row, const TableField& field) {
    if (options_.form == TargetForm::kValues) return wrong(row, roles_.target, ", which is no finite number");
    const auto known = ids_.find(field.text);
    if (known != ids_.end()) {
      labels_.push_back(known->second);
      return {};
    }
    if (!options_.class_names.empty())
      return wrong(row, roles_.target, ", a class that the training data does not have");
    if (field.text.size() > kLongestLabel || ids_.size() == kMostLabels) {
      return table_.error_at(
          row.line, fmt::format("column \"{}\" is no label: there are at most {} of at most {} bytes", target_name(),
                                kMostLabels, kLongestLabel));
    }
    labels_.push_back(static_cast<uint32_t>(ids_.size()));
    ids_.emplace(field.text, labels_.back());
    return {};
  }

  // Classes are numbered in the order of their names, so that the order of the rows makes no difference.
  Result<std::shared_ptr<const Dataset>> make_named(ArrayColumn features, ArrayOptions array) {
    std::vector<std::string> names(options_.class_names);
    std::vector<uint32_t> place(ids_.size());
    if (names.empty()) {
      for (const auto& [name, id] : ids_) {  // a map goes through its keys in order
        place[id] = static_cast<uint32_t>(names.size());
        names.push_back(name);
      }
      for (uint32_t& label : labels_) label = place[label];
    }
    if (options_.classes != 0 && options_.classes != names.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: column \"{}\" holds {} classes where {} were announced", table_.name(),
                                    target_name(), names.size(), options_.classes));
    }
    array.target = TargetForm::kClasses;
    array.classes = names.size();
    BALLAST_TRY(auto set,
                make_array_dataset(table_.name(), std::move(features),
                                   ArrayColumn{target_name(), DType::kU32, {rows_}, BytesOrView(column_bytes(labels_))},
                                   array));
    return with_class_names(std::move(set), std::move(names));
  }

  TableReader& table_;
  const TableOptions& options_;
  Roles roles_;
  uint64_t rows_ = 0;
  uint64_t width_ = 0;
  std::vector<float> features_;
  std::vector<double> numbers_;   // targets that are numbers
  std::vector<uint32_t> labels_;  // targets that are names
  std::map<std::string, uint32_t, std::less<>> ids_;
};

}  // namespace

Result<std::shared_ptr<const Dataset>> open_table_dataset(TableReader& table, const TableOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<const Dataset>> {
    BALLAST_TRY(Roles roles, find_roles(table, options));
    TableColumns columns(table, options, std::move(roles));
    BALLAST_CHECK(columns.read());
    return columns.make();
  });
}

Status read_table_texts(TableReader& table, const std::string& column,
                        const std::function<Status(const std::string&)>& visit) {
  return guarded([&]() -> Status {
    BALLAST_TRY(const size_t index, find_column(table, column));
    TableRow row;
    for (;;) {
      BALLAST_TRY(const bool more, table.next(row));
      if (!more) return {};
      const TableField& field = row.fields[index];
      // A number in a CSV file is text as well; in JSON it is not.
      const bool is_text = field.kind == FieldKind::kText || (field.kind == FieldKind::kNumber && !field.text.empty());
      if (!is_text) return table.error_at(row.line, fmt::format("has no text in column \"{}\"", column));
      BALLAST_CHECK(visit(field.text));
    }
  });
}

}  // namespace ballast
