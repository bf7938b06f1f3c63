#include "apps/ballast/output/help_text.h"

#include <algorithm>
#include <vector>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr size_t kLeastDescription = 24;  // columns; narrower ones stand below the option instead
constexpr size_t kBelowOption = 6;

bool is_indented(std::string_view line) { return line.starts_with(' '); }

bool continues_paragraph(std::string_view line) {
  return !line.empty() && !is_indented(line) && !line.starts_with("Usage:");
}

// Where the second column of "  --name VALUE     What it does" begins; npos where there is none.
size_t description_column(std::string_view line) {
  const size_t first = line.find_first_not_of(' ');
  const size_t gap = first == std::string_view::npos ? first : line.find("  ", first);
  return gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
}

void append_entry(std::string& out, std::string_view line, size_t width) {
  const size_t first = line.find_first_not_of(' ');
  size_t column = description_column(line);
  if (column == std::string_view::npos) column = first;
  if (column + kLeastDescription <= width) {
    out += wrapped(line, width, column);
    return;
  }
  std::string_view name = line.substr(0, column);
  while (name.ends_with(' ')) name.remove_suffix(1);
  if (!name.empty()) out.append(name) += '\n';
  out += wrapped(std::string(kBelowOption, ' ').append(line.substr(column)), width, kBelowOption);
}

}  // namespace

std::string fit_help(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  const std::vector<std::string_view> lines = lines_of(text);
  const auto is_long = [&](std::string_view line) { return display_width(line) > width; };
  std::string out;
  bool in_examples = false;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    in_examples = line == "Examples:" || (in_examples && is_indented(line));
    if (is_indented(line) && is_long(line) && !in_examples) {
      append_entry(out, line, width);
    } else if (!line.empty() && !is_indented(line)) {
      std::string paragraph(line);
      size_t end = i + 1;
      while (end < lines.size() && continues_paragraph(lines[end])) ++end;
      const auto begin = lines.begin() + static_cast<ptrdiff_t>(i), stop = lines.begin() + static_cast<ptrdiff_t>(end);
      if (std::any_of(begin, stop, is_long)) {
        for (; i + 1 < end; ++i) paragraph.append(" ").append(lines[i + 1]);
        paragraph = wrapped(paragraph, width, 0);
      }
      out += paragraph;
    } else {
      out += line;
    }
    out += '\n';
  }
  return out;
}

}  // namespace ballast::cli
