#include "apps/ballast/server/byte_range.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/ballast/server/request_head.h"

namespace ballast::cli {

namespace {

constexpr ByteRange kRefusedRange{.kind = ByteRange::Kind::kRefused};

std::string_view without_spaces(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// A position beyond 64 bits is beyond the end of every file, and the largest number says that as well.
std::optional<uint64_t> read_position(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (text.empty() || stop != end) return std::nullopt;
  return failure == std::errc::result_out_of_range ? UINT64_MAX : value;
}

ByteRange part(uint64_t first, uint64_t size) {
  if (size == 0) return kRefusedRange;
  return {.kind = ByteRange::Kind::kPart, .first = first, .size = size};
}

}  // namespace

ByteRange read_byte_range(std::string_view header, uint64_t file_size) {
  const size_t equals = header.find('=');
  if (equals == std::string_view::npos) return header.empty() ? ByteRange{} : kRefusedRange;
  if (!same_letters(without_spaces(header.substr(0, equals)), "bytes")) return {};  // a unit that is not known
  const std::string_view range = without_spaces(header.substr(equals + 1));
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return kRefusedRange;
  const std::string_view from = range.substr(0, dash), to = range.substr(dash + 1);
  const auto last = read_position(to);
  if (from.empty()) {  // the last bytes, so many
    if (!last) return kRefusedRange;
    const uint64_t size = std::min(*last, file_size);
    return part(file_size - size, size);
  }
  const auto first = read_position(from);
  if (!first || *first >= file_size || (!last && !to.empty())) return kRefusedRange;
  if (!last) return part(*first, file_size - *first);
  if (*last < *first) return kRefusedRange;
  return part(*first, std::min(*last, file_size - 1) - *first + 1);
}

}  // namespace ballast::cli
