#include "ballast/base/near_miss.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ballast {

namespace {

// A word in the wrong case is nearer than another word.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (lower(a[i - 1]) != lower(b[j - 1]) ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace ballast
