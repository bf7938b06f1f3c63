#include "ballast/text/encode_parts.h"

namespace ballast {

namespace {

class PartEncoder {
 public:
  explicit PartEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  Status add(const RenderedPart& part) {
    if (part.from_message) {
      plain_ += part.text;
      return {};
    }
    size_t at = 0;
    BALLAST_TRY(const std::vector<TokenId> ids, encode(part.text, true));
    for (const TokenId id : ids) {
      if (!tokenizer_.is_special(id)) continue;
      // Special tokens are looked for before anything else, so the first text that spells this one is this one.
      const std::string_view mark = tokenizer_.bytes_of(id).value_or("");
      const size_t found = part.text.find(mark, at);
      if (mark.empty() || found == std::string::npos) continue;
      plain_.append(part.text, at, found - at);
      BALLAST_CHECK(flush());
      ids_.push_back(id);
      at = found + mark.size();
    }
    plain_.append(part.text, at);
    return {};
  }

  Result<std::vector<TokenId>> finish() {
    BALLAST_CHECK(flush());
    return std::move(ids_);
  }

 private:
  Result<std::vector<TokenId>> encode(std::string_view text, bool special) const {
    EncodeOptions options;
    options.special_tokens = special;
    options.add_special_tokens = false;  // the template wrote them
    return tokenizer_.encode(text, options);
  }
  Status flush() {
    if (plain_.empty()) return {};
    BALLAST_TRY(const std::vector<TokenId> ids, encode(plain_, false));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    plain_.clear();
    return {};
  }

  const Tokenizer& tokenizer_;
  std::string plain_;  // not encoded yet
  std::vector<TokenId> ids_;
};

}  // namespace

Result<std::vector<TokenId>> encode_parts(const Tokenizer& tokenizer, std::span<const RenderedPart> parts) {
  PartEncoder encoder(tokenizer);
  for (const RenderedPart& part : parts) BALLAST_CHECK(encoder.add(part));
  return encoder.finish();
}

}  // namespace ballast
