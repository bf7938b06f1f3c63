// Text from files and command lines, made safe for a terminal, measured and cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ballast::cli {

// Names and metadata come from files that may be hostile: control characters, bytes that are not UTF-8 and characters
// that reorder or hide text appear as \n, \x1b, \u202e. `keep_newlines` is for texts of our own that quote such names.
std::string printable(std::string_view text, bool keep_newlines = false);

// JSON has no word for bytes that are not UTF-8 (a path may hold some); each becomes U+FFFD.
std::string json_text(std::string_view text);

// Columns that a printable text takes.
size_t display_width(std::string_view text);

// At most `width` columns of a printable text: what is too long loses its middle to "...".
std::string shorten(std::string_view text, size_t width);

// "0.02 MiB", "<0.000001 MiB"
std::string mib(uint64_t bytes);
// The same without the unit and with as many digits as suit the largest number of its column.
std::string mib_digits(uint64_t bytes, uint64_t largest);

// "18,944"
std::string grouped(uint64_t number);
// "1 tensor", "18,944 tensors"
std::string counted(uint64_t number, std::string_view noun);
// "0:07", "1:02:03"
std::string clock_time(double seconds);

// Letters to add, drop or replace to turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that a mistyped word most likely meant; empty when none comes near.
template <typename Candidates>
std::string_view nearest(std::string_view word, const Candidates& candidates) {
  std::string_view best;
  size_t best_distance = word.size() / 3 + 2;  // more mistakes than that are another word
  for (const std::string_view candidate : candidates) {
    const size_t distance = candidate.starts_with(word) ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace ballast::cli
