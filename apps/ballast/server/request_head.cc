#include "apps/ballast/server/request_head.h"

#include <algorithm>

namespace ballast::cli {

namespace {

char small_letter(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return small_letter(x) == small_letter(y); });
}

std::optional<RequestTarget> split_target(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  RequestTarget result;
  if (target == "*") return RequestTarget{"*", std::nullopt};
  if (target.size() > kScheme.size() && same_letters(target.substr(0, kScheme.size()), kScheme)) {
    const size_t end = std::min(target.find_first_of("/?", kScheme.size()), target.size());
    result.host = target.substr(kScheme.size(), end - kScheme.size());
    target.remove_prefix(end);
    if (target.empty() || target.front() == '?') return RequestTarget{"/", std::move(result.host)};
  }
  if (!target.starts_with('/')) return std::nullopt;
  result.path = target.substr(0, target.find_first_of("?#"));
  return result;
}

}  // namespace ballast::cli
