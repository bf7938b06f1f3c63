// Rows of cells under aligned columns.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/ballast/terminal.h"

namespace ballast::cli {

struct Cell {
  Cell(std::string content, Paint colour = Paint::kPlain) : text(std::move(content)), paint(colour) {}  // NOLINT
  Cell(std::string_view content, Paint colour = Paint::kPlain) : text(content), paint(colour) {}        // NOLINT
  Cell(const char* content, Paint colour = Paint::kPlain) : text(content), paint(colour) {}             // NOLINT

  std::string text;  // printable
  Paint paint;
};

enum class Align : unsigned char { kLeft, kRight };

struct Column {
  std::string_view title;
  Align align = Align::kLeft;
  bool gives_way = false;  // is cut when the terminal is too narrow
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void reserve(size_t rows) { cells_.reserve(rows * columns_.size()); }
  bool empty() const { return cells_.empty(); }
  // One cell per column.
  template <typename... Cells>
  void add_row(Cells&&... cells) {
    (cells_.emplace_back(std::forward<Cells>(cells)), ...);
  }
  // Every line begins with two spaces. Columns without any title get no line of titles.
  void append_to(std::string& out, const Terminal& terminal) const;

 private:
  std::vector<size_t> find_widths(const Terminal& terminal) const;
  void append_cell(std::string& out, const Terminal& terminal, size_t column, size_t width, const Cell& cell) const;

  std::vector<Column> columns_;
  std::vector<Cell> cells_;  // row after row
};

}  // namespace ballast::cli
