// Which known word a mistyped one most likely meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace ballast {

// Letters to add, drop or replace to turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that a mistyped word most likely meant; empty when none comes near. A candidate of another length
// altogether costs nothing, so that long names from a file cannot make this slow.
template <typename Candidates>
std::string_view nearest(std::string_view word, const Candidates& candidates) {
  std::string_view best;
  size_t best_distance = word.size() / 4 + 2;  // more mistakes than that are another word
  for (const std::string_view candidate : candidates) {
    const size_t lengths_apart =
        candidate.size() > word.size() ? candidate.size() - word.size() : word.size() - candidate.size();
    size_t distance = lengths_apart;  // at least that many letters differ
    if (!word.empty() && candidate.starts_with(word)) distance = 1;
    else if (lengths_apart < best_distance) distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace ballast
