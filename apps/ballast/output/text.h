// Text from files and command lines, made safe for a terminal, measured and cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ballast/base/near_miss.h"

namespace ballast::cli {

// Names and metadata come from files that may be hostile: control characters, bytes that are not UTF-8 and characters
// that reorder or hide text appear as \n, \x1b, \u202e. `keep_newlines` is for texts of our own that quote such names.
std::string printable(std::string_view text, bool keep_newlines = false);

// What a model says, for a terminal: control characters and those that reorder text as above, all else as it is.
std::string without_controls(std::string_view text);

// JSON has no word for bytes that are not UTF-8 (a path may hold some); each becomes U+FFFD.
std::string json_text(std::string_view text);

// Columns that a printable text takes.
size_t display_width(std::string_view text);

// At most `width` columns of a printable text: what is too long loses its middle to "...".
std::string shorten(std::string_view text, size_t width);

// Without their line breaks; what follows the last break is a line only where it is not empty.
std::vector<std::string_view> lines_of(std::string_view text);

// "18,944"
std::string grouped(uint64_t number);
// "1 tensor", "18,944 tensors"
std::string counted(uint64_t number, std::string_view noun);
// "0:07", "1:02:03"
std::string clock_time(double seconds);

// Breaks a line between words so that each part has at most `width` columns; parts after the first begin with `indent`
// spaces. Words that are longer stay whole. `width` 0: the text as it is.
std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace ballast::cli
