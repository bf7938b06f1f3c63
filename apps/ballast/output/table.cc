#include "apps/ballast/output/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/ballast/flags/distinct_names.h"
#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr size_t kIndent = 2;
constexpr size_t kGap = 2;
// One monstrous name must not push every other line to its width.
constexpr size_t kWidestAligned = 100;
constexpr size_t kNarrowest = 12;
constexpr size_t kReadable = 28;  // a name column is not made narrower than this to keep columns that may go

size_t line_width(const std::vector<size_t>& widths, const std::vector<bool>& hidden) {
  size_t total = kIndent;
  size_t shown = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (hidden[i]) continue;
    total += widths[i];
    ++shown;
  }
  return total + kGap * (shown == 0 ? 0 : shown - 1);
}

}  // namespace

std::vector<size_t> Table::full_widths() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (size_t i = 0; i < cells_.size(); ++i) {
    size_t& width = widths[i % columns_.size()];
    width = std::max(width, std::min(display_width(cells_[i].text), kWidestAligned));
  }
  return widths;
}

std::vector<std::string_view> Table::column_texts(size_t column) const {
  std::vector<std::string_view> texts;
  for (size_t i = column; i < cells_.size(); i += columns_.size()) texts.emplace_back(cells_[i].text);
  return texts;
}

// The column that gives way takes what the others leave. To leave it enough, columns that may go are hidden.
void Table::fit_flexible(size_t flexible, size_t room, Layout& layout) const {
  std::vector<size_t>& widths = layout.widths;
  const std::vector<std::string_view> texts = column_texts(flexible);
  const size_t full = widths[flexible];
  size_t wanted = std::min(full, kNarrowest);
  if (columns_[flexible].names) wanted = std::min(full, distinct_width(texts, std::min(full, kReadable)));
  const auto rest = [&] { return line_width(widths, layout.hidden) - full; };
  if (rest() + wanted > room) {
    const size_t before = std::exchange(widths[flexible], wanted);
    cut_texts(kReadable, flexible, room, layout);
    widths[flexible] = before;
  }
  for (unsigned rank = UINT8_MAX; rank > 0 && rest() + wanted > room; --rank) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].leave_out == rank) layout.hidden[i] = true;
    }
  }
  if (rest() + wanted > room) {
    const size_t before = std::exchange(widths[flexible], wanted);
    cut_texts(kNarrowest, flexible, room, layout);
    widths[flexible] = before;
  }
  const size_t left = room > rest() ? room - rest() : 0;
  if (columns_[flexible].names && left < wanted)
    wanted = std::min(full, distinct_width(texts, std::max(left, std::min(full, kNarrowest))));
  // Two names that look the same mislead; a line that is too long only looks bad.
  widths[flexible] = std::min(full, std::max(left, wanted));
}

// The longest texts give way first, down to `narrowest`; column `kept` stays.
void Table::cut_texts(size_t narrowest, size_t kept, size_t room, Layout& layout) const {
  for (;;) {
    const size_t line = line_width(layout.widths, layout.hidden);
    if (line <= room) return;
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool is_text = columns_[i].align == Align::kLeft && columns_[i].leave_out == 0;
      const bool may_shrink =
          i != kept && !layout.hidden[i] && is_text && layout.widths[i] > std::max(narrowest, columns_[i].title.size());
      if (may_shrink && (widest == columns_.size() || layout.widths[i] > layout.widths[widest])) widest = i;
    }
    if (widest == columns_.size()) return;
    size_t& width = layout.widths[widest];
    width = std::max({narrowest, columns_[widest].title.size(), width - std::min(width, line - room)});
  }
}

void Table::hide_from_right(size_t kept, size_t room, Layout& layout) const {
  for (size_t i = columns_.size(); i > 1 && line_width(layout.widths, layout.hidden) > room; --i) {
    if (i - 1 != kept) layout.hidden[i - 1] = true;
  }
}

void Table::shorten_texts(Layout& layout) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (layout.hidden[i] || columns_[i].align != Align::kLeft) continue;
    const std::vector<std::string_view> texts = column_texts(i);
    const auto is_long = [&](std::string_view text) { return display_width(text) > layout.widths[i]; };
    if (std::ranges::none_of(texts, is_long)) continue;
    if (columns_[i].names) {
      layout.shortened[i] = shorten_names(texts, layout.widths[i]);
    } else {
      for (const std::string_view text : texts) layout.shortened[i].push_back(shorten(text, layout.widths[i]));
    }
  }
}

Table::Layout Table::fit(const Terminal& terminal) const {
  const auto flexible = static_cast<size_t>(std::ranges::find(columns_, true, &Column::gives_way) - columns_.begin());
  Layout layout{full_widths(), std::vector<bool>(columns_.size(), false), {}};
  layout.shortened.resize(columns_.size());
  if (terminal.width == 0 || line_width(layout.widths, layout.hidden) <= terminal.width) return layout;
  if (flexible != columns_.size()) fit_flexible(flexible, terminal.width, layout);
  cut_texts(kNarrowest, flexible, terminal.width, layout);
  hide_from_right(flexible, terminal.width, layout);
  shorten_texts(layout);
  return layout;
}

void Table::append_cell(std::string& out, const Terminal& terminal, size_t column, size_t width, std::string_view text,
                        Paint paint) const {
  const size_t taken = display_width(text);
  const size_t padding = width > taken ? width - taken : 0;
  if (columns_[column].align == Align::kRight) out.append(padding, ' ');
  append_painted(out, terminal, paint, text);
  if (columns_[column].align == Align::kLeft) out.append(padding, ' ');
}

void Table::append_to(std::string& out, const Terminal& terminal) const {
  const Layout layout = fit(terminal);
  const auto append_line = [&](auto&& text_of, auto&& paint_of) {
    out.append(kIndent, ' ');
    bool first = true;
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (layout.hidden[column]) continue;
      if (!std::exchange(first, false)) out.append(kGap, ' ');
      append_cell(out, terminal, column, layout.widths[column], text_of(column), paint_of(column));
    }
    while (out.ends_with(' ')) out.pop_back();  // nobody needs them
    out += '\n';
  };
  const bool titled = std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); });
  if (titled) append_line([&](size_t column) { return columns_[column].title; }, [](size_t) { return Paint::kDim; });
  for (size_t row = 0; row * columns_.size() < cells_.size(); ++row) {
    const auto cell = [&](size_t column) -> const Cell& { return cells_[row * columns_.size() + column]; };
    const auto text = [&](size_t column) -> std::string_view {
      return layout.shortened[column].empty() ? cell(column).text : layout.shortened[column][row];
    };
    append_line(text, [&](size_t column) { return cell(column).paint; });
  }
  append_missing(out, terminal, layout);
}

void Table::append_missing(std::string& out, const Terminal& terminal, const Layout& layout) const {
  std::vector<std::string_view> missing;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (layout.hidden[i] && !columns_[i].title.empty()) missing.push_back(columns_[i].title);
  }
  if (missing.empty()) return;
  const std::string text = fmt::format("  (no room at this width for: {})", fmt::join(missing, ", "));
  append_painted(out, terminal, Paint::kDim, wrapped(text, terminal.width, kIndent));
  out += '\n';
}

}  // namespace ballast::cli
