#include "apps/ballast/terminal/terminal_keys.h"

#include <algorithm>
#include <utility>

#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

constexpr std::string_view kPasteBegin = "\x1b[200~";
constexpr std::string_view kPasteEnd = "\x1b[201~";

struct Sequence {
  std::string_view bytes;
  KeyKind kind;
};

constexpr Sequence kSequences[] = {
    {"\x1b[D", KeyKind::kLeft},
    {"\x1b[C", KeyKind::kRight},
    {"\x1b[A", KeyKind::kUp},
    {"\x1b[B", KeyKind::kDown},
    {"\x1b[H", KeyKind::kHome},
    {"\x1b[F", KeyKind::kEnd},
    {"\x1bOD", KeyKind::kLeft},
    {"\x1bOC", KeyKind::kRight},
    {"\x1bOA", KeyKind::kUp},
    {"\x1bOB", KeyKind::kDown},
    {"\x1bOH", KeyKind::kHome},
    {"\x1bOF", KeyKind::kEnd},
    {"\x1b[1~", KeyKind::kHome},
    {"\x1b[4~", KeyKind::kEnd},
    {"\x1b[7~", KeyKind::kHome},
    {"\x1b[8~", KeyKind::kEnd},
    {"\x1b[3~", KeyKind::kDelete},
    {"\x1b[1;5D", KeyKind::kWordLeft},
    {"\x1b[1;5C", KeyKind::kWordRight},
    {"\x1b[1;3D", KeyKind::kWordLeft},
    {"\x1b[1;3C", KeyKind::kWordRight},
    {"\x1b"
     "b",
     KeyKind::kWordLeft},
    {"\x1b"
     "f",
     KeyKind::kWordRight},
    {"\x1b\x7f", KeyKind::kKillWord},
    {"\x1b\r", KeyKind::kNewLine},
    {"\x1b\n", KeyKind::kNewLine},
};

constexpr std::pair<char, KeyKind> kControls[] = {
    {'\r', KeyKind::kEnter},       {'\n', KeyKind::kEnter},       {0x01, KeyKind::kHome},
    {0x05, KeyKind::kEnd},         {0x02, KeyKind::kLeft},        {0x06, KeyKind::kRight},
    {0x10, KeyKind::kUp},          {0x0E, KeyKind::kDown},        {0x0B, KeyKind::kKillToEnd},
    {0x15, KeyKind::kKillToStart}, {0x17, KeyKind::kKillWord},    {0x08, KeyKind::kBackspace},
    {0x7F, KeyKind::kBackspace},   {0x0C, KeyKind::kClearScreen}, {0x03, KeyKind::kInterrupt},
    {0x04, KeyKind::kEndOfInput},
};

}  // namespace

std::vector<Key> KeyDecoder::next(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Key> keys;
  while (!pending_.empty()) {
    if (!take(keys)) break;
  }
  return keys;
}

// False where more bytes are needed.
bool KeyDecoder::take(std::vector<Key>& keys) {
  if (pasting_) return take_paste(keys);
  if (pending_[0] == '\x1b') return take_escape(keys);
  const auto* control = std::ranges::find(kControls, pending_[0], &std::pair<char, KeyKind>::first);
  if (control == std::end(kControls)) return take_character(keys);
  pending_.erase(0, 1);
  keys.push_back({control->second});
  return true;
}

bool KeyDecoder::take_paste(std::vector<Key>& keys) {
  const size_t end = pending_.find(kPasteEnd);
  if (end == std::string::npos) return false;
  keys.push_back({KeyKind::kPaste, pending_.substr(0, end)});
  pending_.erase(0, end + kPasteEnd.size());
  pasting_ = false;
  return true;
}

bool KeyDecoder::take_escape(std::vector<Key>& keys) {
  if (pending_.starts_with(kPasteBegin)) {
    pending_.erase(0, kPasteBegin.size());
    pasting_ = true;
    return true;
  }
  for (const Sequence& sequence : kSequences) {
    if (!pending_.starts_with(sequence.bytes)) continue;
    pending_.erase(0, sequence.bytes.size());
    keys.push_back({sequence.kind});
    return true;
  }
  if (pending_.size() == 1) return false;
  if (pending_[1] != '[' && pending_[1] != 'O') {  // a key with Alt that means nothing here
    pending_.erase(0, 2);
    return true;
  }
  // Parameters, then one letter or ~ that ends the sequence: keys that mean nothing here.
  const auto last = std::find_if(pending_.begin() + 2, pending_.end(), [](char c) { return c >= 0x40 && c <= 0x7E; });
  if (last == pending_.end()) return false;
  pending_.erase(pending_.begin(), last + 1);
  return true;
}

bool KeyDecoder::take_character(std::vector<Key>& keys) {
  const auto first = static_cast<unsigned char>(pending_[0]);
  if (first < 0x20) {  // other control characters
    pending_.erase(0, 1);
    return true;
  }
  const size_t wanted = first < 0xC0 || first >= 0xF8 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (pending_.size() < wanted) return false;
  const size_t length = utf8_sequence_length(pending_, 0);
  if (length > 0) keys.push_back({KeyKind::kText, pending_.substr(0, length)});
  pending_.erase(0, std::max<size_t>(length, 1));
  return true;
}

}  // namespace ballast::cli
