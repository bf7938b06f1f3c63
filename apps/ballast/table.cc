#include "apps/ballast/table.h"

#include <algorithm>

#include "apps/ballast/text.h"

namespace ballast::cli {

namespace {

constexpr size_t kIndent = 2;
constexpr size_t kGap = 2;
// One monstrous name must not push every other line to its width.
constexpr size_t kWidestAligned = 100;
constexpr size_t kNarrowest = 12;

}  // namespace

std::vector<size_t> Table::find_widths(const Terminal& terminal) const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (size_t i = 0; i < cells_.size(); ++i) {
    size_t& width = widths[i % columns_.size()];
    width = std::max(width, std::min(display_width(cells_[i].text), kWidestAligned));
  }
  size_t total = kIndent + kGap * (columns_.size() - 1);
  for (const size_t width : widths) total += width;
  if (terminal.width == 0 || total <= terminal.width) return widths;
  for (size_t column = 0; column < columns_.size(); ++column) {
    if (!columns_[column].gives_way) continue;
    const size_t excess = total - terminal.width;
    const size_t floor = std::min(widths[column], kNarrowest);
    widths[column] = widths[column] > excess + floor ? widths[column] - excess : floor;
    break;
  }
  return widths;
}

void Table::append_cell(std::string& out, const Terminal& terminal, size_t column, size_t width,
                        const Cell& cell) const {
  const bool cut = terminal.width != 0 && columns_[column].gives_way;
  const std::string shortened = cut ? shorten(cell.text, width) : std::string();
  const std::string_view text = cut ? shortened : cell.text;
  const size_t taken = display_width(text);
  const size_t padding = width > taken ? width - taken : 0;
  if (columns_[column].align == Align::kRight) out.append(padding, ' ');
  append_painted(out, terminal, cell.paint, text);
  if (columns_[column].align == Align::kLeft) out.append(padding, ' ');
}

void Table::append_to(std::string& out, const Terminal& terminal) const {
  const std::vector<size_t> widths = find_widths(terminal);
  const auto append_line = [&](auto&& cell_of) {
    out.append(kIndent, ' ');
    size_t ragged = 0;  // spaces at the end of the line, which nobody needs
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (column != 0) out.append(kGap, ' ');
      append_cell(out, terminal, column, widths[column], cell_of(column));
    }
    while (ragged < out.size() && out[out.size() - 1 - ragged] == ' ') ++ragged;
    out.resize(out.size() - ragged);
    out += '\n';
  };
  const bool titled = std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); });
  if (titled) append_line([&](size_t column) { return Cell(columns_[column].title, Paint::kDim); });
  for (size_t row = 0; row < cells_.size(); row += columns_.size()) {
    append_line([&](size_t column) -> const Cell& { return cells_[row + column]; });
  }
}

}  // namespace ballast::cli
