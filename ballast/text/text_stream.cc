#include "ballast/text/text_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ballast/io/guard.h"

namespace ballast {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopText::next(std::string_view text) {
  if (found_) return "";
  pending_ += text;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, pending_.find(stop));
  if (end != std::string::npos) {
    found_ = true;
    std::string shown = pending_.substr(0, end);
    pending_.clear();
    return shown;
  }
  // The longest ending that some stop string begins with stays.
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, pending_.size()); length > held; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  std::string shown = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, shown.size());
  return shown;
}

std::string StopText::finish() { return std::exchange(pending_, {}); }

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
