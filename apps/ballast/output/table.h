// Rows of cells under aligned columns.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/ballast/terminal/terminal.h"

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
  bool gives_way = false;  // is cut first when the terminal is too narrow; where there are several, the first of them
  bool names = false;      // cut so that different names stay different
  // To leave names enough room, columns go, the highest number first; 0 stays.
  unsigned char leave_out = 0;
};

inline Column name_column(std::string_view title) { return {title, Align::kLeft, true, true}; }
// A column of numbers that goes where room is scarce.
inline Column spare_column(std::string_view title, unsigned char leave_out) {
  return {title, Align::kRight, false, false, leave_out};
}

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
  // Every line begins with two spaces. Columns without any title get no line of titles. Lines fit the terminal: first
  // the column that gives way is cut, then other long texts, and then columns go from the right; those are named in a
  // last line. Only names that would look the same are left too long.
  void append_to(std::string& out, const Terminal& terminal) const;

 private:
  struct Layout {
    std::vector<size_t> widths;
    std::vector<bool> hidden;                         // per column
    std::vector<std::vector<std::string>> shortened;  // per column its texts, where they had to be cut
  };
  std::vector<size_t> full_widths() const;
  Layout fit(const Terminal& terminal) const;
  void fit_flexible(size_t flexible, size_t room, Layout& layout) const;
  void cut_texts(size_t narrowest, size_t kept, size_t room, Layout& layout) const;
  void hide_from_right(size_t kept, size_t room, Layout& layout) const;
  void shorten_texts(Layout& layout) const;
  void append_missing(std::string& out, const Terminal& terminal, const Layout& layout) const;
  std::vector<std::string_view> column_texts(size_t column) const;
  void append_cell(std::string& out, const Terminal& terminal, size_t column, size_t width, std::string_view text,
                   Paint paint) const;

  std::vector<Column> columns_;
  std::vector<Cell> cells_;  // row after row
};

}  // namespace ballast::cli
