// Tensor names cut to the width of a column so that different names still look different.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ballast::cli {

// At most `width` columns each. What all names begin with goes first ("model.layers." becomes "..."), then the parts of
// a name from the left ("l.10.s.q_proj.weight"), then its middle. Numbers stay. May still make two names alike.
std::vector<std::string> shorten_names(const std::vector<std::string_view>& names, size_t width);

// The smallest width, from `least` up, at which shorten_names keeps different names apart; the longest name where none
// does.
size_t distinct_width(const std::vector<std::string_view>& names, size_t least);

}  // namespace ballast::cli
