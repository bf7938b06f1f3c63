#include "ballast/edit/similarity.h"

#include <algorithm>
#include <vector>

namespace ballast {

double jaro_similarity(std::string_view a, std::string_view b) {
  constexpr size_t kLongest = 512;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  if (a == b) return 1;
  if (a.empty() || b.empty()) return 0;
  // Letters match when they are the same and not further apart than this.
  const size_t longer = std::max(a.size(), b.size());
  const size_t reach = longer / 2 > 0 ? longer / 2 - 1 : 0;
  std::vector<bool> taken(b.size(), false);
  std::vector<size_t> matched_a;
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t begin = i > reach ? i - reach : 0;
    const size_t end = std::min(b.size(), i + reach + 1);
    for (size_t j = begin; j < end; ++j) {
      if (taken[j] || a[i] != b[j]) continue;
      taken[j] = true;
      matched_a.push_back(i);
      break;
    }
  }
  if (matched_a.empty()) return 0;
  size_t out_of_order = 0;
  size_t j = 0;
  for (const size_t i : matched_a) {
    while (!taken[j]) ++j;
    if (a[i] != b[j++]) ++out_of_order;
  }
  const auto matches = static_cast<double>(matched_a.size());
  const double transpositions = static_cast<double>(out_of_order) / 2;
  return (matches / static_cast<double>(a.size()) + matches / static_cast<double>(b.size()) +
          (matches - transpositions) / matches) /
         3;
}

}  // namespace ballast
