#include "ballast/text/text_stream.h"

#include <fmt/format.h>

#include "ballast/io/guard.h"

namespace ballast {

TextStream::TextStream(const Tokenizer* tokenizer, std::vector<std::string> stops) : stops_(std::move(stops)) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
}

Result<std::string> TextStream::next(TokenId id) {
  return guarded([&]() -> Result<std::string> {
    if (!decoder_) return fmt::format("{} ", id);
    BALLAST_TRY(const std::string text, decoder_->next(id));
    return stops_.next(text);
  });
}

Result<std::string> TextStream::finish() {
  return guarded([&]() -> Result<std::string> {
    std::string rest = decoder_ ? stops_.next(decoder_->finish()) : "";
    return rest + stops_.finish();
  });
}

}  // namespace ballast
