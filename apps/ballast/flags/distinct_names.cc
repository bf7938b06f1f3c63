#include "apps/ballast/flags/distinct_names.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "apps/ballast/output/text.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kParts = ".:/";
constexpr std::string_view kOmitted = "...";

// What all names with several parts begin with, up to and with a separator. Rows such as "total" do not count.
size_t shared_parts(const std::vector<std::string_view>& names) {
  std::string_view shared;
  bool first = true;
  for (const std::string_view name : names) {
    if (name.find_first_of(kParts) == std::string_view::npos) continue;
    if (std::exchange(first, false)) shared = name;
    const auto [end, ignored] = std::ranges::mismatch(shared, name);
    shared = shared.substr(0, static_cast<size_t>(end - shared.begin()));
  }
  const size_t separator = shared.find_last_of(kParts);
  const size_t length = separator == std::string_view::npos ? 0 : separator + 1;
  return length > kOmitted.size() ? length : 0;  // dots in place of less would save nothing
}

bool is_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

// Parts from the left lose their ends, down to one character, until the name fits; the last part and numbers stay.
std::string abbreviate(std::string_view name, size_t width) {
  std::string out;
  size_t excess = display_width(name) - width;
  while (excess > 0) {
    const size_t separator = name.find_first_of(kParts);
    if (separator == std::string_view::npos || separator + 1 == name.size()) break;
    const std::string_view part = name.substr(0, separator);
    const bool plain = std::ranges::all_of(part, [](unsigned char c) { return c < 0x80; });
    if (plain && part.size() > 1 && !is_number(part) && part != kOmitted) {
      const size_t kept = part.size() > excess + 1 ? part.size() - excess : 1;
      out += part.substr(0, kept);
      excess -= std::min(excess, part.size() - kept);
    } else {
      out += part;
    }
    out += name[separator];
    name.remove_prefix(separator + 1);
  }
  return out.append(name);
}

bool keeps_apart(const std::vector<std::string_view>& names, size_t width) {
  const std::vector<std::string> shortened = shorten_names(names, width);
  std::unordered_map<std::string_view, std::string_view> seen;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [place, fresh] = seen.emplace(shortened[i], names[i]);
    if (!fresh && place->second != names[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> shorten_names(const std::vector<std::string_view>& names, size_t width) {
  std::vector<std::string> out(names.begin(), names.end());
  const auto fits = [&](const std::string& name) { return display_width(name) <= width; };
  if (std::ranges::all_of(out, fits)) return out;
  if (const size_t shared = shared_parts(names); shared != 0) {
    for (std::string& name : out) {
      if (name.find_first_of(kParts) != std::string::npos) name.replace(0, shared, kOmitted);
    }
  }
  for (std::string& name : out) {
    if (!fits(name)) name = shorten(abbreviate(name, width), width);
  }
  return out;
}

size_t distinct_width(const std::vector<std::string_view>& names, size_t least) {
  constexpr size_t kStep = 4;
  constexpr size_t kMost = 100;  // beyond, a name is a monster, and looking on takes time
  size_t longest = 0;
  for (const std::string_view name : names) longest = std::max(longest, display_width(name));
  for (size_t width = least; width < std::min(longest, kMost); width += kStep) {
    if (keeps_apart(names, width)) return width;
  }
  return std::max(std::min(longest, kMost), std::min(least, longest));
}

}  // namespace ballast::cli
