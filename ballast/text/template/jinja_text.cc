#include "ballast/text/template/jinja_text.h"

#include <algorithm>
#include <utility>

namespace ballast::jinja {

Text::Text(std::string bytes, bool from_message) : bytes_(std::move(bytes)) {
  if (from_message && !bytes_.empty()) runs_.push_back({0, bytes_.size()});
}

bool Text::from_message(size_t at) const {
  const auto run = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return run != runs_.end() && run->begin <= at;
}

void Text::append(std::string_view bytes, bool from_message) {
  const size_t begin = bytes_.size();
  bytes_ += bytes;
  if (!from_message || bytes.empty()) return;
  if (!runs_.empty() && runs_.back().end == begin) runs_.back().end = bytes_.size();
  else runs_.push_back({begin, bytes_.size()});
}

void Text::append(const Text& text) { append(text, 0, text.size()); }

void Text::append(const Text& text, size_t begin, size_t end) {
  const std::string_view bytes = text.bytes_;
  size_t at = begin;
  for (auto run = std::ranges::upper_bound(text.runs_, begin, {}, &Run::end);
       run != text.runs_.end() && run->begin < end; ++run) {
    const size_t from = std::max(run->begin, begin);
    const size_t to = std::min(run->end, end);
    append(bytes.substr(at, from - at));
    append(bytes.substr(from, to - from), true);
    at = to;
  }
  append(bytes.substr(at, end - at));
}

Text Text::slice(size_t begin, size_t end) const {
  Text part;
  part.append(*this, begin, end);
  return part;
}

// Each round appends what there is already, so that a letter times a million takes twenty rounds.
Text Text::repeated(size_t count) const {
  const size_t total = size() * count;
  Text whole;
  whole.bytes_.reserve(total);
  if (total > 0) whole.append(*this);
  while (whole.size() < total) whole.append(whole.slice(0, std::min(whole.size(), total - whole.size())));
  return whole;
}

}  // namespace ballast::jinja
