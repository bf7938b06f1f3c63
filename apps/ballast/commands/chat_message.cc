#include "apps/ballast/commands/chat_message.h"

#include <algorithm>

namespace ballast::cli {

namespace {

constexpr std::string_view kQuotes = "\"\"\"";

std::string_view without_outer_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

}  // namespace

bool is_unfinished_message(std::string_view text) {
  const std::string_view inner = without_outer_space(text);
  if (inner.starts_with(kQuotes)) return inner.size() < 2 * kQuotes.size() || !inner.ends_with(kQuotes);
  const size_t last = text.find_last_not_of('\\');
  const size_t backslashes = text.size() - (last == std::string_view::npos ? 0 : last + 1);
  return backslashes % 2 == 1;  // two of them are one that is meant
}

std::string message_of(std::string_view text) {
  std::string_view inner = without_outer_space(text);
  if (inner.starts_with(kQuotes)) {
    inner.remove_prefix(kQuotes.size());
    if (inner.ends_with(kQuotes)) inner.remove_suffix(kQuotes.size());
    return std::string(without_outer_space(inner));
  }
  std::string out(inner);
  for (size_t at = 0; (at = out.find("\\\n", at)) != std::string::npos; ++at) out.erase(at, 1);
  return out;
}

}  // namespace ballast::cli
