#include <algorithm>

#include "ballast/base/utf8.h"
#include "ballast/io/guard.h"
#include "ballast/text/tokenizer.h"

namespace ballast {

namespace {

constexpr std::string_view kReplacement = "\uFFFD";
// Enough for any decoder to see what stands before a token.
constexpr size_t kWindow = 4;

// How many bytes the character that `lead` begins has; 0 for a byte that begins none.
size_t length_from_lead(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// True when bytes that may still come could complete the character at `at`.
bool may_be_completed(std::string_view text, size_t at) {
  const size_t wanted = length_from_lead(static_cast<unsigned char>(text[at]));
  if (wanted <= 1 || text.size() - at >= wanted) return false;
  // Fill up with the smallest and the largest bytes that may follow: if neither makes a character, nothing does.
  for (const char filler : {'\x80', '\xBF'}) {
    std::string filled(text.substr(at));
    filled.resize(wanted, filler);
    if (utf8_sequence_length(filled, 0) != 0) return true;
  }
  return false;
}

}  // namespace

// What the text of the last tokens grows by when `id` joins them.
Result<std::string> StreamDecoder::bytes_of_next(TokenId id) {
  if (tokenizer_.decodes_each_alone()) return tokenizer_.decode(std::span(&id, 1), options_);
  window_.push_back(id);
  auto whole = tokenizer_.decode(window_, options_);
  if (!whole) {
    window_.pop_back();
    return whole;
  }
  std::string grown = shown_ < whole->size() ? whole->substr(shown_) : "";
  shown_ = std::max(shown_, whole->size());
  // The window moves on where its text shows nothing of what was before it: after a token with text of its own.
  if (window_.size() > 2 * kWindow && !grown.empty()) {
    window_.erase(window_.begin(), window_.end() - kWindow);
    BALLAST_TRY(const std::string rest, tokenizer_.decode(window_, options_));
    shown_ = rest.size();
  }
  return grown;
}

Result<std::string> StreamDecoder::next(TokenId id) {
  return guarded([&]() -> Result<std::string> {
    BALLAST_TRY(const std::string bytes, bytes_of_next(id));
    pending_ += bytes;
    std::string ready;
    size_t at = 0;
    while (at < pending_.size()) {
      const size_t length = utf8_sequence_length(pending_, at);
      if (length != 0) {
        ready.append(pending_, at, length);
        at += length;
        continue;
      }
      if (may_be_completed(pending_, at)) break;
      ready += kReplacement;
      ++at;
    }
    pending_.erase(0, at);
    return ready;
  });
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace ballast
