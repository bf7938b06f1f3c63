#include "ballast/text/tokenizer/charsmap.h"

#include <fmt/format.h>

#include "ballast/base/bytes.h"
#include "ballast/text/unicode.h"

namespace ballast {

namespace {

// A unit of the trie: the byte that leads to it, whether a value hangs below it, and how far its children are.
uint32_t unit_label(uint32_t unit) { return unit & ((1U << 31) | 0xFF); }
bool unit_has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }
uint32_t unit_value(uint32_t unit) { return unit & 0x7FFFFFFF; }

constexpr size_t kShortGrapheme = 6;  // bytes from which on a grapheme is taken apart

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  const uint64_t trie = bytes.size() < 4 ? 0 : load_le<uint32_t>(data);
  if (bytes.size() < 8 || trie < 4 || trie % 4 != 0 || trie > bytes.size() - 4) {
    return make_error(ErrorCode::kCorrupt, fmt::format("a charsmap of {} bytes cannot hold a trie of {}: it is damaged",
                                                       bytes.size(), trie));
  }
  auto tables = std::make_shared<Tables>();
  tables->units.resize(trie / 4);
  for (size_t i = 0; i < tables->units.size(); ++i) tables->units[i] = load_le<uint32_t>(data + 4 + i * 4);
  tables->replacements = bytes.substr(4 + trie);
  return Charsmap(std::move(tables));
}

// Calls found(length, offset of the replacement) for every beginning of `text` in the table, shortest first, until it
// says no.
template <typename Found>
void Charsmap::walk(std::string_view text, Found&& found) const {
  const auto& units = tables_->units;
  uint32_t at = unit_offset(units[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units.size() || unit_label(units[at]) != byte) return;
    const bool has_value = unit_has_value(units[at]);
    at ^= unit_offset(units[at]);
    if (!has_value) continue;
    if (at >= units.size() || !found(i + 1, unit_value(units[at]))) return;
  }
}

std::string_view Charsmap::replacement_at(uint32_t offset) const {
  const std::string_view all = tables_->replacements;
  if (offset >= all.size()) return {};
  return all.substr(offset, all.find('\0', offset) - offset);
}

std::optional<Charsmap::Replacement> Charsmap::find_shortest(std::string_view text) const {
  std::optional<Replacement> result;
  walk(text, [&](size_t length, uint32_t offset) {
    result = Replacement{length, replacement_at(offset)};
    return false;
  });
  return result;
}

std::optional<Charsmap::Replacement> Charsmap::find_longest(std::string_view text) const {
  std::optional<std::pair<size_t, uint32_t>> best;
  walk(text, [&](size_t length, uint32_t offset) {
    best = {length, offset};
    return true;
  });
  if (!best) return std::nullopt;
  return Replacement{best->first, replacement_at(best->second)};
}

std::string Charsmap::replace_graphemes(std::string_view text, size_t most) const {
  std::string out;
  for (size_t at = 0; at < text.size() && out.size() <= most;) {
    const size_t end = grapheme_end(text, at);
    const std::string_view grapheme = text.substr(at, end - at);
    at = end;
    if (grapheme.size() < kShortGrapheme) {
      if (const auto whole = find_shortest(grapheme)) {
        out += whole->text;
        continue;
      }
    }
    for_each_char(grapheme, [&](const CharAt& c) {
      const std::string_view one = grapheme.substr(c.begin, c.end - c.begin);
      const auto replaced = find_shortest(one);
      out += replaced ? replaced->text : one;
    });
  }
  return out;
}

}  // namespace ballast
