#include "apps/ballast/terminal/word_wrap.h"

#include <utility>

#include "apps/ballast/output/text.h"
#include "ballast/base/utf8.h"

namespace ballast::cli {

namespace {

constexpr size_t kTabStop = 8;

size_t character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

void WordWrap::text(std::string_view bytes, bool keep) {
  if (width_ == 0) {
    word_ += bytes;
    return;
  }
  for (const char byte : bytes) {
    partial_ += byte;
    if (partial_.size() < character_length(partial_[0])) continue;
    character(partial_, keep);
    partial_.clear();
  }
}

void WordWrap::character(std::string_view bytes, bool keep) {
  if (bytes == "\n") {
    end_word();
    spaces_ = 0;  // nobody sees them
    out_ += '\n';
    column_ = 0;
    return;
  }
  if (bytes == " " && !keep) {
    end_word();
    ++spaces_;
    return;
  }
  const size_t columns = bytes == "\t" ? kTabStop : display_width(bytes);
  const bool is_wide = columns == 2;
  if (is_wide && !keep) end_word();
  word_ += bytes;
  word_width_ += columns;
  if (is_wide || keep) end_word(keep);
}

void WordWrap::end_word(bool keep) {
  if (word_width_ > 0) {
    if (!keep && column_ > 0 && column_ + spaces_ + word_width_ > width_) {
      out_ += '\n';
      column_ = 0;
    } else {
      out_.append(spaces_, ' ');
      column_ += spaces_;
    }
    spaces_ = 0;
    column_ += word_width_;
  }
  out_ += std::exchange(word_, {});
  word_width_ = 0;
}

void WordWrap::finish() {
  word_ += std::exchange(partial_, {});
  end_word();
}

std::string WordWrap::take() {
  if (width_ == 0) out_ += std::exchange(word_, {});
  return std::exchange(out_, {});
}

}  // namespace ballast::cli
